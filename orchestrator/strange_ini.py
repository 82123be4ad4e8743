"""INI files of strangers, as `configparser` reads them, and as pytest does. The former alone takes the square of a run
of blanks, of the lines that it cannot read, and of defaults that each section gets once more. Pure."""

from __future__ import annotations

import re
from configparser import ConfigParser, Error

# Its own pattern tries each blank as the end of a name; a name ends where the first sign of a value is.
_OPTION = re.compile(r"(?P<option>[^=:]++)(?P<vi>[=:])\s*+(?P<value>.*)")

# Where `str.splitlines`, and so pytest, ends a line and `configparser` does not; or the other way round.
_OTHER_LINES = re.compile("\r(?!\n)|[\v\f\x1c-\x1e\x85\u2028\u2029]")


class BadIni(ValueError):
    """The text is no INI file."""


class _Options:
    @staticmethod
    def match(line: str) -> re.Match[str]:
        """The parser would go on after a bad line, and tell of all of them in the end."""
        if (found := _OPTION.match(line)) is None:
            raise BadIni(f"no option: {line[:80]}")
        return found


class _Linear(ConfigParser):
    OPTCRE = _Options()  # pyright: ignore[reportAssignmentType] # of a pattern the parser only calls `match`


def read_ini(text: str) -> dict[str, dict[str, str]]:
    """By section; `[DEFAULT]` is one like others. `BadIni` for what is none.

    >>> read_ini("[pytest]\\naddopts = -q\\n  -x\\n")
    {'pytest': {'addopts': '-q\\n-x'}}
    """
    parser = _Linear(interpolation=None, default_section="")  # a name that no section can have
    try:
        parser.read_string(text)
    except Error as error:
        raise BadIni(str(error)[:200]) from None
    return {name: dict(parser.items(name)) for name in parser.sections()}


def read_pytest_ini(text: str) -> dict[str, dict[str, str]]:
    """By section as pytest reads one: names keep their case, what begins with a blank goes on, and so does what only
    looks like a section. `BadIni` also for a text whose lines are others for other programs.

    >>> read_pytest_ini("[pytest]\\nAddopts = -q\\n  -x\\n[tox] x\\n")
    {'pytest': {'Addopts': '-q\\n-x\\n[tox] x'}}
    """
    if _OTHER_LINES.search(text):
        raise BadIni("lines that not every program ends")
    sections: dict[str, dict[str, list[str]]] = {}
    options: dict[str, list[str]] | None = None
    value: list[str] | None = None
    for line in map(str.rstrip, text.removeprefix("\ufeff").split("\n")):
        if not line or line.lstrip().startswith(("#", ";")):
            continue
        head = re.split("[#;]", line, maxsplit=1)[0].rstrip()
        if head.startswith("[") and head.endswith("]"):
            if len(head) < 3 or head[1:-1] in sections:
                raise BadIni(f"a section without a name of its own: {line[:80]}")
            options, value = sections.setdefault(head[1:-1], {}), None
        elif line[0] == "[" or line[0].isspace():
            if value is None:
                raise BadIni(f"what goes on with nothing: {line[:80]}")
            value.append(line.strip())
        else:
            found = _OPTION.match(line)
            name = found["option"].strip() if found else ""
            if found is None or options is None or name in options:
                raise BadIni(f"no option of its own: {line[:80]}")
            value = options[name] = [told] if (told := found["value"].strip()) else []
    return {name: {key: "\n".join(told) for key, told in kept.items()} for name, kept in sections.items()}
