"""How programs read their own arguments, as far as the table in `programs` tells: which command of a program this is,
and whether it is handed code. Pure.

Code is what the program runs as such (`python -c`, `psql -c`, `awk 'system(…)'`), and any option that says which
other program it runs (`git -c core.pager=…`, `tar --to-command=…`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache

from .programs import PROGRAMS, Row
from .syntax import Unparsable

# Words as their program gets them; None where only running it tells how many they are, and which.
Values = Sequence[str | None]
UNTOLD = "\0"  # one word, and only running it tells which

# Of `git config`, what only reads; what a name and an address are is no program's business.
_GIT_READS = frozenset({"--get", "--get-all", "--list", "-l", "--get-regexp", "get", "list", "--show-origin"})
_GIT_KEYS = re.compile(
    r"user\.(?:name|email)|init\.defaultBranch|(?:advice|color)\.\w+|pull\.(?:rebase|ff)|push\.default"
)
MAKES = ("make", "gmake")
_SUBCOMMAND = re.compile(r"[\w@%+=:,./-]+")
_SETS_MAKE = re.compile(r"(?:\.?SHELL\w*|MAKE\w*|GNUMAKEFLAGS)\s*[:?+!]?=")


def operands_at(values: Values) -> int:
    """Where, after the program's name, its own command begins: behind the options that are for all of its commands.

    `Unparsable` where it is not plain which command that is.

    >>> operands_at(["git", "-C", "x", "--no-pager", "log"]), operands_at(["ls", "-l"]), operands_at(["npm", "test"])
    (4, 1, 1)
    """
    row = _row(values)
    if row is None or not row.commands:
        return 1
    at, _, doubtful = _scan(values, row)
    if doubtful:
        raise Unparsable(f"it is not plain which command of {values[0]!r} this is")
    if at < len(values) and not _SUBCOMMAND.fullmatch(values[at] or ""):
        # targets are files, or what a loop goes through; no rule for one of them would hold anyway
        if _name(values) in MAKES:
            return at
        raise Unparsable(f"it is not plain which command of {values[0]!r} this is")
    return at


def is_open(values: Values) -> bool:
    """Could more arguments, which another program adds, hand it code? `Unparsable` where they name its command."""
    row = _row(values)
    if row is None:
        return _name(values) in _BY_PROGRAM
    if row.commands and operands_at(values) >= len(values):
        raise Unparsable(f"which command of {values[0]!r} this is comes from elsewhere")
    if row.commands:
        name, command = _name(values), values[operands_at(values)]
        return name in MAKES or f"{name} {command}" in PROGRAMS
    return not row.from_input or _scan(values, row)[0] >= len(values)


def carries_code(values: Values) -> bool:
    """Do its arguments hold code, or say which other program is run?

    >>> carries_code(["python", "-Bc", "x()"]), carries_code(["python3.11", "-m", "pytest", "-c", "x"])
    (True, False)
    >>> carries_code(["git", "-c", "alias.x=!y", "x"]), carries_code(["sed", "s/a/b/"]), carries_code(["sed", "1e ls"])
    (True, False, True)
    """
    name = _name(values)
    if by_program := _BY_PROGRAM.get(name):
        return by_program([None if value == UNTOLD else value for value in values[1:]])
    row = _row(values)
    if row is None:
        return False
    at, code, doubtful = _scan(values, row)
    if row.commands:
        return code or _command_carries_code(name, values[at:])
    return code or doubtful


def _command_carries_code(name: str, rest: Values) -> bool:
    if name in MAKES:
        return any(value is not None and _SETS_MAKE.match(value) for value in rest)
    if name == "git" and any(value and re.match(r"\w+::", value) for value in rest):
        return True  # a transport of its own: `ext::sh -c …`
    if rest[:1] == ["config"] and name == "git":
        return not _reads_config(rest[1:])
    following = next((value for value in rest[1:] if value and not value.startswith("-")), "")
    words = [name, *(value or "" for value in rest[:1]), following]
    for length in (3, 2):
        row = PROGRAMS.get(" ".join(words[:length]))
        if row is not None and len(words) >= length:
            _, code, _ = _scan(rest[length - 2 :], row)
            return code
    return False


def _reads_config(rest: Values) -> bool:
    if any(value in (None, UNTOLD) for value in rest[:1]):
        return False
    plain = [value for value in rest if value not in ("--global", "--local", "--system", "--null", "-z", "--name-only")]
    if not plain or plain[0] in _GIT_READS or plain[0] == "--unset":
        return True
    return bool(plain[0]) and (bool(_GIT_KEYS.fullmatch(plain[0])) or (len(plain) == 1 and plain[0][:1] != "-"))


def _name(values: Values) -> str:
    """The row's name for a program: without its folder, and without a version behind it."""
    base = (values[0] or "").rpartition("/")[2]
    return base if base in PROGRAMS else re.sub(r"[\d.]+$", "", base)


def _row(values: Values) -> Row | None:
    return PROGRAMS.get(_name(values))


@cache
def _options(written: str) -> dict[str, str]:
    """Option → its marks."""
    return {re.sub(r"[=!.?]+$", "", each) or each: re.sub(r"^.*?([=!.?]*)$", r"\1", each) for each in written.split()}


def _scan(values: Values, row: Row) -> tuple[int, bool, bool]:
    """Where the first operand is, whether an option is code, and whether one is not understood."""
    name, code, doubtful, options = _name(values), row.always, False, _options(row.options)
    at = 1
    while at < len(values):
        value = values[at]
        if value is None or value == UNTOLD:
            doubtful = True
            if not row.anywhere:
                return at, code, doubtful
            code, at = True, at + 1
            continue
        if value == "--":
            return (at + 1, code, doubtful) if not row.anywhere else (len(values), code, doubtful)
        if row.anywhere and value in options:
            code, at = True, at + 1
            continue
        if not value.startswith("-") or value == "-":
            if (value.startswith("+") and name == "cargo") or (name in MAKES and at > 1 and value.isdigit()):
                at += 1
                continue
            if not row.anywhere:
                return at, code or (row.from_input and value == "-"), doubtful
            # `tar xIf prog`
            code = code or (at == 1 and name == "tar" and "=" not in value and "I" in value.partition(".")[0][:6])
            at += 1
            continue
        marks, takes_next = _marks(value, options, anywhere=row.anywhere)
        if "?" in marks:
            return len(values), code if not row.always else False, False
        code, doubtful = code or "!" in marks, doubtful or "*" in marks
        if "." in marks:
            return len(values), False if row.always else code, doubtful
        if takes_next and values[at + 1 : at + 2] == [None] and not row.anywhere:
            return at, code, True
        at += 2 if takes_next else 1
    return len(values), code or row.from_input, doubtful


def _marks(value: str, options: dict[str, str], *, anywhere: bool) -> tuple[str, bool]:
    """The marks of the options in a word ("*": one is unknown), and whether the next word is a value of the last."""
    name, equals, _ = value.partition("=")
    if name in options:
        return options[name], "=" in options[name] and not equals
    if value.startswith("--"):
        # programs take what begins like one of their options for it
        longer = [marks for option, marks in options.items() if option.startswith(name) and len(name) > 3]
        if longer:
            return "".join(longer), any("=" in marks for marks in longer) and not equals
        return ("" if anywhere else "*"), False
    if any(len(option) > 2 and value.startswith(option) for option in options if not option.startswith("--")):
        return "!", False
    found = ""
    for index, letter in enumerate(value[1:], 1):
        marks = options.get(f"-{letter}")
        if marks is None:
            if anywhere:
                continue
            if letter.isdigit() and index > 1:  # `-j4`, `-O2`
                continue
            return found + "*", False
        found += marks
        if "=" in marks:
            return found, index == len(value) - 1
    return found, False


# A script that is only read through: addresses, then a command that neither runs nor writes anything.
_SED_ADDRESS = r"(?:\d+(?:~\d+)?|\$|/(?:[^/\\\n]|\\.)*/I?)"
_SED_COMMAND = (
    r"(?:[dDpPhHgGxnN=lqQzF][^\S\n]*+\d*|[btT:][ \t]*+[\w.]*"
    r"|s([^\w\s\\])(?:(?!\1)[^\\\n]|\\[\s\S])*\1(?:(?!\1)[^\\]|\\[\s\S])*\1[gpiIM\d]*"
    r"|y/(?:[^/\\\n]|\\.)*/(?:[^/\\\n]|\\.)*/|[aic](?:\\\n|[ \t]*+\\?)[^\n]*)"
)
_BLANKS = r"[^\S\n]*+"  # and never two ways to read a run of them
_SED_PART = re.compile(
    rf"\s*+(?:{_SED_ADDRESS}(?:,[+~]?{_SED_ADDRESS})?)?{_BLANKS}!?{_BLANKS}(?:{_SED_COMMAND})?{_BLANKS}(?=[;}}\n]|$)"
)
_SED_FLAGS = re.compile(
    r"-[nErsuzi]+|--(?:quiet|silent|regexp-extended|in-place(?:=.*)?|separate|unbuffered|null-data|posix)"
)


def _sed_carries_code(rest: Values) -> bool:
    scripts: list[str | None] = []
    has_script, words = False, iter(rest)
    for value in words:
        if value is None:
            if not has_script:
                return True
        elif value in ("-e", "--expression"):
            scripts.append(next(words, None))
            has_script = True
        elif value.startswith(("--expression=", "-e")):
            scripts.append(value.removeprefix("--expression=").removeprefix("-e"))
            has_script = True
        elif value.startswith("-") and value != "-":
            if not _SED_FLAGS.fullmatch(value) and not re.fullmatch(r"-i[\w.~]*", value):
                return True
        elif not has_script:
            scripts.append(value)
            has_script = True
    return not scripts or not all(script is not None and _is_plain_sed(script) for script in scripts)


def _is_plain_sed(script: str) -> bool:
    at = 0
    while at < len(script):
        if script[at] in "{};\n \t":
            at += 1
            continue
        found = _SED_PART.match(script, at)
        if found is None or found.end() == at:
            # `/x/{` opens a group
            found = re.compile(rf"{_SED_ADDRESS}(?:,{_SED_ADDRESS})?\s*+!?\s*+(?=\{{)").match(script, at)
            if found is None:
                return False
        at = found.end()
    return True


_AWK_RUNS = re.compile(r"system|getline|@|(?<!\|)\|(?!\|)")


def _awk_carries_code(rest: Values) -> bool:
    words = iter(rest)
    for value in words:
        if value is None:
            return True
        if value in ("-F", "-v"):
            if next(words, None) is None and value == "-F":
                continue
        elif value == "-f":
            return False  # a file is as good as a program
        elif re.match(r"-[Fv].", value):
            continue
        elif value.startswith("-"):
            return True
        else:
            printed = value.find("print")
            return _AWK_RUNS.search(value) is not None or (printed >= 0 and ">" in value[printed:])
    return False


_BY_PROGRAM: dict[str, Callable[[Values], bool]] = {
    **dict.fromkeys(("awk", "gawk", "mawk", "nawk"), _awk_carries_code),
    **dict.fromkeys(("sed", "gsed"), _sed_carries_code),
}
