"""How programs read their own arguments, as far as the table in `programs` tells: which command of a program this is,
and whether it is handed code. Pure.

Code is what the program runs as such (`python -c`, `psql -c`, `awk 'system(…)'`), and any option that says which
other program it runs (`git -c core.pager=…`, `tar --to-command=…`).
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Sequence
from functools import cache
from itertools import takewhile

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
# A transport of git's own (`ext::sh -c …`), and go's linker.
_WORDS_RUN = {"git": re.compile(r"\w+::"), "go": re.compile(r".*-extld", re.DOTALL)}
MAKES = ("make", "gmake")
TARS = ("tar", "gtar", "bsdtar")
_AROUND = re.compile(r"^\w+-(?:\w+-)+(?=g?cc|[gc]\+\+|ld|ar)|-[\d.]++$|(?<![\d.])[\d.]++$")
_SUBCOMMAND = re.compile(r"[\w@%+=:,./-]+")
# The built-in rules and every Makefile hand variables to a shell, and run what some of them name. So nothing that a
# shell or make reads as more than words, and only for names that are no program's, or with values that are none.
_FLAG = (
    r"-(?:O\w?|g\d?|[DU]\w+(?:=[\w.]+)?|[IL][\w./-]+|l\w+|std=[\w+]+|W[\w=-]*|pedantic|pthread|static|shared"
    r"|f(?!plugin|pass-plugin|use-ld|module-mapper)[\w=-]+|m[\w=.-]+)"
)
_MAKE_VALUES = re.compile(
    r"\d*|(?i:y|yes|n|no|true|false|on|off)|(?:ccache )?(?:g?cc|[gc]\+\+|clang(?:\+\+)?|gfortran)(?:-?[\d.]+)?"
    rf"|{_FLAG}(?: +{_FLAG})*"
)
_MAKE_NAMES = re.compile(
    r"(?:V|Q|VERBOSE|DEBUG|TESTS?|TEST_?(?:FILES?|NAMES?|ARGS|CASES?|PATHS?|FILTER|OPTS)|(?:PYTEST_?)?ARGS|VERSION|TAG"
    r"|ENV|ARCH|OS|GOOS|GOARCH|PLATFORM|TARGET|MODE|CONFIG|PROFILE|FEATURES|BUILD(?:_?(?:TYPE|MODE|DIR))?|O"
    r"|OUT(?:_?DIR)?|OUTPUT|prefix|PREFIX|DESTDIR|SRC|PKG|PACKAGE|MODULE|NAME|FILES?|FILTER|K|N|JOBS|SEED|PORT|HOST"
    r"|IMAGE|BRANCH|COMMIT|MSG|MESSAGE|COVERAGE|LEVEL|LOG_?LEVEL|LANG|BOARD|SPHINXOPTS"
    r")\s*[:?+]{0,3}=[\w./:@%,+=\[\] ~-]*|PYTHON=python[\d.]*"
)
# Modules of Python that run what stands in their arguments, or what comes from the input.
_PYTHON_RUNS = frozenset({"timeit", "code", "pdb", "asyncio", "IPython", "bpython", "ptpython"})
# What CMake runs by what is defined for it.
_CMAKE_RUNS = re.compile(
    r"(?:-D)?(?:CMAKE_\w*(?:COMPILER|LAUNCHER|PROGRAM|LINKER|ARCHIVE_(?:CREATE|APPEND|FINISH)|CREATE_[A-Z]+_[A-Z]+"
    r"|LINK_EXECUTABLE|COMPILE_OBJECT|COMMAND|AR|NM|RANLIB|EMULATOR|CPPCHECK|CLANG_TIDY|INCLUDE_WHAT_YOU_USE"
    r"|FLAGS(?:_[A-Z]+)?)|\w+_EXECUTABLE|RULE_LAUNCH_[A-Z]+)(?::[A-Z]+)?=(?P<value>.*)",
    re.DOTALL,
)


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
        return row.throughout or f"{name} {command}" in PROGRAMS
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
        return code or _command_carries_code(name, values[at:], row)
    return code or doubtful


def is_input(name: str) -> bool:
    """Is a file of this name, or may it be, what a program gets as its input?

    >>> is_input("-"), is_input("/dev/stdin"), is_input("..//../proc/self/fd/0"), is_input("dev/x.py")
    (True, True, True, False)
    """
    return name == "-" or re.match(r"(?:/+|(?:\.\./)+)(?:dev|proc)\b", posixpath.normpath(name)) is not None


def _command_carries_code(name: str, rest: Values, row: Row) -> bool:
    if row.throughout and _has_code_option(rest, _options(row.options)):
        return True
    if name in MAKES:
        return not all(map(_is_plain_for_make, rest))
    if name in _WORDS_RUN and any(value and _WORDS_RUN[name].match(value) for value in rest):
        return True
    if rest[:1] == ["config"] and name == "git":
        return not _reads_config(rest[1:])
    following = next((value for value in rest[1:] if value and not value.startswith("-")), "")
    words = [name, *(value or "" for value in rest[:1]), following]
    for length in (3, 2):
        own = PROGRAMS.get(" ".join(words[:length]))
        if own is not None and len(words) >= length:
            _, code, _ = _scan(rest[length - 2 :], own)
            return code
    return bool(row.harmless) and bool(rest) and rest[0] not in row.harmless.split()


def _has_code_option(rest: Values, options: dict[str, str]) -> bool:
    """Behind the command, too; what is not told may be one."""
    for value in takewhile(lambda value: value != "--", rest):
        if value in (None, UNTOLD):
            return True
        if value and value.startswith("-") and "!" in _marks(value, options, anywhere=True)[0]:
            return True
    return False


def _is_plain_for_make(word: str | None) -> bool:
    """A target, an option, `V=1`, `PREFIX=/usr`."""
    if word is None or word == UNTOLD:
        return False
    name, equals, value = word.partition("=")
    if not equals or word.startswith("-") or _MAKE_NAMES.fullmatch(word):
        return True
    return bool(re.fullmatch(r"\w+\s*[:?+]{0,3}", name) and _MAKE_VALUES.fullmatch(value))


def _reads_config(rest: Values) -> bool:
    if any(value in (None, UNTOLD) for value in rest[:1]):
        return False
    plain = [value for value in rest if value not in ("--global", "--local", "--system", "--null", "-z", "--name-only")]
    if not plain or plain[0] in _GIT_READS or plain[0] == "--unset":
        return True
    return bool(plain[0]) and (bool(_GIT_KEYS.fullmatch(plain[0])) or (len(plain) == 1 and plain[0][:1] != "-"))


def _name(values: Values) -> str:
    """The row's name for a program: without its folder, what it compiles for, and a version behind it."""
    base = (values[0] or "").rpartition("/")[2]
    return base if base in PROGRAMS else _AROUND.sub("", base)


def _row(values: Values) -> Row | None:
    return PROGRAMS.get(_name(values))


@cache
def _options(written: str) -> dict[str, str]:
    """Option → its marks."""
    names = {each: each.rstrip("=!.?") for each in written.split()}
    return {name or each: each.removeprefix(name) for each, name in names.items()}


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
        if row.anywhere and "!" in options.get(value, ""):
            code, at = True, at + 1
            continue
        if not value.startswith("-") or value == "-":
            if (value.startswith("+") and name == "cargo") or (name in MAKES and at > 1 and value.isdigit()):
                at += 1
                continue
            if not row.anywhere:
                return at, code or (row.from_input and is_input(value)), doubtful
            code = code or (value.startswith("@") and "@" in options)
            # `tar xIf prog`: its first word is one of letters, dash or not
            code = code or (at == 1 and "-I" in options and name in TARS and bool({"I", "F"} & set(value)))
            at += 1
            continue
        marks, takes_next = _marks(value, options, anywhere=row.anywhere, clusters=row.clusters)
        if marks == "?" and at + 1 == len(values):
            return len(values), code if not row.always else False, False
        code, doubtful = code or "!" in marks, doubtful or "*" in marks
        if "=" in marks and (row.from_input or row.always):
            code = code or _reads_input(value, values[at + 1] if takes_next and at + 1 < len(values) else "")
        if "." in marks and row.always:
            following = values[at + 1 + takes_next :]
            ends = all(each is not None and each != UNTOLD and not each.startswith("-") for each in following)
            return len(values), not ends or _reads_input(*values[at : at + 1 + takes_next]), doubtful
        if "." in marks:
            module = values[at + 1] if takes_next and at + 1 < len(values) else value.partition("m")[2]
            return len(values), code or module in _PYTHON_RUNS | {None, UNTOLD}, doubtful
        if takes_next and values[at + 1 : at + 2] == [None] and not row.anywhere:
            return at, code, True
        at += 2 if takes_next else 1
    return len(values), code or row.from_input, doubtful


def _reads_input(option: str | None, value: str | None = "") -> bool:
    """Is an option's value, in its word or behind it, the program's input, or may it be?"""
    attached = re.sub(r"^(?:--[\w-]+=|-[A-Za-z]+)", "", option or "")
    return value in (None, UNTOLD) or is_input(attached) or is_input(value or "")


def _marks(value: str, options: dict[str, str], *, anywhere: bool, clusters: bool = True) -> tuple[str, bool]:
    """The marks of the options in a word ("*": one is unknown), and whether the next word is a value of the last."""
    name, equals, _ = value.partition("=")
    if name in options:
        return options[name], "=" in options[name] and not equals
    if value.startswith("--"):
        # programs take what begins like one of their options for it
        longer = [marks for option, marks in options.items() if option.startswith(name) and len(name) > 2]
        if longer:
            return "".join(longer), any("=" in marks for marks in longer) and not equals
        return ("" if anywhere else "*"), False
    if any("!" in options[each] and len(each) > 2 and value.startswith(each) for each in options if each[1:2] != "-"):
        return "!", False
    if not clusters:
        return options.get(value[:2], ""), False
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
_SED_GROUP = re.compile(rf"{_SED_ADDRESS}(?:,{_SED_ADDRESS})?\s*+!?\s*+(?=\{{)")
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
            found = _SED_GROUP.match(script, at)
            if found is None:
                return False
        at = found.end()
    return True


_AWK_RUNS = re.compile(r"system|getline|@|(?<!\|)\|(?!\|)")


def _awk_carries_code(rest: Values) -> bool:
    words, has_file = iter(rest), False
    for value in words:
        if value is None:
            return True
        if value in ("-F", "-v"):
            next(words, None)
        elif value.startswith("-f"):
            name = value[2:] or next(words, None)
            if name is None or is_input(name):
                return True
            has_file = True  # it is as good as a program
        elif re.match(r"-[Fv].", value):
            continue
        elif value.startswith("-"):
            return True
        elif has_file:
            return False
        else:
            printed = value.find("print")
            return _AWK_RUNS.search(value) is not None or (printed >= 0 and ">" in value[printed:])
    return False


def _cmake_carries_code(rest: Values) -> bool:
    """What it is told to compile with, or to hand to make (`cmake -E env` is a runner)."""
    own = list(takewhile(lambda value: value != "--", rest))
    found = [_CMAKE_RUNS.fullmatch(value) for value in own if value is not None]
    return (
        any(value is None or is_input(value) for value in own)
        or not all(_MAKE_VALUES.fullmatch(each["value"]) for each in found if each)
        or any((value or "").startswith("__") for value in own)
        or _command_carries_code("make", rest[len(own) + 1 :], PROGRAMS["make"])
    )


_BY_PROGRAM: dict[str, Callable[[Values], bool]] = {
    **dict.fromkeys(("awk", "gawk", "mawk", "nawk"), _awk_carries_code),
    **dict.fromkeys(("sed", "gsed"), _sed_carries_code),
    "cmake": _cmake_carries_code,
}
