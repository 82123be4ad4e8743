"""INI files of strangers, as `configparser` reads them. It alone takes the square of a run of blanks, of the lines that
it cannot read, and of defaults that each section gets once more. Pure."""

from __future__ import annotations

import re
from configparser import ConfigParser, Error

# Its own pattern tries each blank as the end of a name; a name ends where the first sign of a value is.
_OPTION = re.compile(r"(?P<option>[^=:]++)(?P<vi>[=:])\s*+(?P<value>.*)")


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
