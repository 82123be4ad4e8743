"""What of a CMake file counts for tests: all but plain lists of the product's own sources, and versions. Pure."""

from __future__ import annotations

import posixpath
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

from .names import is_test_file

_TOKEN = re.compile(
    r"""(?P<blank>[\s;]++) | (?P<bracket>\#?\[(?P<mark>=*+)\[) | (?P<comment>\#[^\n]*+)
      | "(?P<quoted>(?:[^"\\]|\\.)*+)" | (?P<paren>[()]) | (?P<plain>(?:[^\s;()\#"\\]|\\.)++)""",
    re.VERBOSE | re.DOTALL,
)
_NAME = re.compile(r"[A-Za-z_]\w*+")
_SOURCE = re.compile(
    r"[\w./+-]+\.(?:c|cc|cpp|cxx|c\+\+|C|m|mm|h|hh|hpp|hxx|h\+\+|inl|ipp|tpp|cu|cuh|s|S|asm|f|f90|F90|for|swift|proto|ui|qrc|rc)"
)
_VARIABLE = re.compile(r"\$\{(\w+)\}")
_VERSION = re.compile(r"\d[\d.]*")
# They make a target of sources; or may name one, and run nothing of it.
_WITH_SOURCES = frozenset(("add_library", "add_executable", "target_sources"))
_HARMLESS = frozenset(
    (
        *("target_link_libraries", "target_include_directories", "target_compile_definitions", "install", "export"),
        *("target_compile_features", "target_compile_options", "target_link_options", "set_target_properties"),
        *("target_precompile_headers", "target_link_directories", "source_group", "add_dependencies", "project"),
        *("message", "add_subdirectory", "find_package", "include", "option", "if", "elseif", "else", "endif"),
        *("set", "list", "cmake_minimum_required", "configure_file", "include_directories"),
    )
)


# They make names of other names; a kind of a command, or (but for what it writes) all of it.
_MAKES_NAMES = frozenset(
    (
        *((name, "") for name in ("string", "file", "get_filename_component", "cmake_path", "execute_process", "math")),
        *((name, "") for name in ("get_property", "get_target_property", "get_directory_property")),
        *(("list", kind) for kind in ("TRANSFORM", "JOIN", "GET", "SUBLIST", "POP_FRONT", "POP_BACK")),
    )
)
_WRITES = frozenset(("file", kind) for kind in ("GENERATE", "WRITE", "APPEND", "CONFIGURE"))
_RENAMES = frozenset(("OUTPUT_NAME", "RUNTIME_OUTPUT_NAME", "PREFIX", "SUFFIX", "DEBUG_POSTFIX", "RELEASE_POSTFIX"))
_PARTS = re.compile(r"[\s:<>;,='\"()]+")
_ANY = "${}"  # a value that nobody can tell

MAX_PROJECT_CHARS = 200  # of its name, which is put in for each mention
MAX_CHARS = 1_000_000  # of all files of a project: half a second
MAX_PATTERNS, MAX_NAME_CHARS = 20, 200


class BadCMake(ValueError):
    """No such file as CMake would read."""


@dataclass(frozen=True, slots=True)
class _Command:
    """`written`: how each word `given` is: a quote, a bracket or a parenthesis, after `+` or `;` where no blank is
    before it. `if("X")` is about a text, and `if(X)` about a variable."""

    name: str
    given: tuple[str, ...]
    written: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Uses:
    """What CMake files say beside sources: `words` of commands that may run or register something, the values of
    `lists`, the targets that are `libraries`. `all_may_run`: not all of it can be told."""

    words: tuple[str, ...] = ()
    lists: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])
    libraries: frozenset[str] = frozenset()
    all_may_run: bool = False


ANY_TARGET = Uses(all_may_run=True)
Runs = Callable[[str], bool]


def what_counts(
    text: str, runs: Runs = lambda _: False, *, beside: Uses = Uses()
) -> list[tuple[str, tuple[tuple[str, str], ...]]]:
    """Comparable. Sources of a target that a test or a command (`runs`) may run are kept, and so are those that are
    tests by their names. `beside`: what other files say.

    >>> before = what_counts("add_library(calc calc.c) # of numbers")
    >>> before == what_counts("add_library(calc calc.c more.c)"), before == what_counts("add_library(calc ${X})")
    (True, False)
    """
    commands = _read(text)
    used = _targets_used(_both(beside, _uses(commands)), runs)
    mentions, listed = Counter[str](), Counter[str]()
    for one in commands:
        names = Counter(name for word in one.given for name in _VARIABLE.findall(word))
        mentions.update(names)
        if _is_product(one, used):
            listed.update(names)
    products = {name for name, count in listed.items() if count == mentions[name]}
    return [_without_sources(one, used, products) for one in commands]


def uses_of(texts: Iterable[str | None]) -> Uses:
    """Of all CMake files of a project; None is one that cannot be read, and what is no CMake file may say anything."""
    commands, chars_left = list[_Command](), MAX_CHARS
    for text in texts:
        chars_left -= len(text or "")
        if text is None or chars_left < 0:
            return ANY_TARGET
        try:
            commands += _read(text)
        except BadCMake:
            return ANY_TARGET
    return _uses(commands)


def included(text: str) -> list[str]:
    """The names of files that are included, however they are called; a text with `${` cannot be told."""
    try:
        commands = _read(text)
    except BadCMake:
        return []
    return [one.given[0].rpartition("/")[2] for one in commands if one.name == "include" and one.given]


def named_by_tests(text: str) -> list[str]:
    """What commands about tests name beside sources, a script to run say; and files that are included."""
    try:
        commands = _read(text)
    except BadCMake:
        return []
    wanted = [
        one for one in commands if one.name == "include" or ("test" in one.name and one.name not in _WITH_SOURCES)
    ]
    return [word for one in wanted for word in one.given if not _is_source(word)]


def _read(text: str) -> list[_Command]:
    found: list[_Command] = []
    name, given, written, depth, at = "", list[str](), list[str](), 0, 0
    before = ""
    while at < len(text):
        token = _TOKEN.match(text, at)
        if token is None:
            raise BadCMake(f"at {at}")
        at = token.end()
        if token["blank"] or token["comment"]:
            before = ";" if ";" in token[0] and not token["comment"] else ""
            continue
        word = token["quoted"] if token["quoted"] is not None else token["plain"]
        if token["bracket"]:
            end = text.find(f"]{token['mark']}]", at)
            if end < 0:
                raise BadCMake("a bracket that is not closed")
            word = None if token["bracket"].startswith("#") else text[at:end]
            before = before if word is not None else ""
            at = end + len(token["mark"]) + 2
        if token["paren"]:
            depth += 1 if token["paren"] == "(" else -1
            if depth < 0 or (depth == 1 and not name):
                raise BadCMake("a parenthesis without its command")
            if depth == 0:
                found.append(_Command(name.lower(), tuple(given), tuple(written)))
                name, given, written = "", [], []
            elif (depth, token["paren"]) != (1, "("):
                given.append(token["paren"])
                written.append("(")
            before = ""
        elif word is not None and depth:
            given.append(word)
            written.append(before + ("" if token["plain"] else token[0][0]))
            before = "+"
        elif word is not None:
            if name or not token["plain"] or not _NAME.fullmatch(word):
                raise BadCMake("a word outside of a command")
            name = word
    if depth or name:
        raise BadCMake("a command that is not closed")
    projects = {one.given[0] for one in found if one.name == "project" and one.given}
    if len(projects) != 1:
        return found
    own = projects.pop()
    if len(own) > MAX_PROJECT_CHARS:
        raise BadCMake("a project whose name is no name")
    return [replace(one, given=tuple(_with_project(one, own))) for one in found]


def _with_project(command: _Command, own: str) -> Iterator[str]:
    for word, how in zip(command.given, command.written, strict=True):
        yield word if how.endswith("[") else word.replace("${PROJECT_NAME}", own)


def _uses(commands: Sequence[_Command]) -> Uses:
    lists: dict[str, list[str]] = {}
    words: list[str] = []
    libraries: list[str] = []
    for one in commands:
        kind = one.given[0] if one.given else ""
        if (one.name, kind) in _MAKES_NAMES or ((one.name, "") in _MAKES_NAMES and (one.name, kind) not in _WRITES):
            for name in filter(_NAME.fullmatch, one.given):
                lists.setdefault(name, []).append(_ANY)
        elif one.name in ("set", "list") and len(one.given) > (one.name == "list"):
            first = 2 if one.name == "list" else 1
            lists.setdefault(one.given[first - 1], []).extend(one.given[first:])
        elif one.name == "project" and kind:
            for name in ("PROJECT_NAME", "CMAKE_PROJECT_NAME"):
                lists.setdefault(name, []).append(kind)
        elif one.name in _WITH_SOURCES:
            if one.given[1:2] == ("ALIAS",):
                lists.setdefault(kind, []).extend(one.given[2:])
            libraries += [kind] if one.name == "add_library" else []
        elif one.name not in _HARMLESS or not _RENAMES.isdisjoint(one.given):
            words += one.given
    is_any = any((one.name, one.given[:1]) == ("cmake_language", ("EVAL",)) for one in commands)
    return Uses(tuple(words), lists, frozenset(libraries), is_any)


def _both(one: Uses, other: Uses) -> Uses:
    names = {*one.lists, *other.lists}
    lists = {name: (*one.lists.get(name, ()), *other.lists.get(name, ())) for name in names}
    is_any = one.all_may_run or other.all_may_run
    return Uses((*one.words, *other.words), lists, one.libraries | other.libraries, is_any)


@dataclass(frozen=True, slots=True)
class _Used:
    """Targets that are run: by their names, by what a name with a variable may be, or all that are no libraries."""

    names: Collection[str]
    patterns: Sequence[re.Pattern[str]]
    libraries: frozenset[str]
    all_may_run: bool
    runs: Runs

    def __contains__(self, target: object) -> bool:
        assert isinstance(target, str)
        if target in self.names:
            return True
        if target in self.libraries:
            return False
        return self.all_may_run or self.runs(target) or any(one.fullmatch(target) for one in self.patterns)


def _targets_used(uses: Uses, runs: Runs) -> _Used:
    """Words that may be targets, of which a command may run or register something; also by a list of them, by a path
    that ends in one, and by a name that variables are part of."""
    waiting = list(uses.words)
    names: set[str] = set()
    mixed: set[str] = set()
    within_names: set[str] = set()
    is_any = uses.all_may_run
    while waiting:
        word = waiting.pop()
        if word == _ANY:
            is_any = True
            continue
        parts = set(_PARTS.split(word))
        parts |= {part.rpartition("/")[2].removesuffix(".exe") for part in parts}
        new = parts - names
        names |= new
        for part in new:
            whole = _VARIABLE.fullmatch(part)
            if "${" in part and not whole:
                mixed.add(part)
                within = set(_VARIABLE.findall(part)) - within_names
                within_names |= within
                waiting += (value for name in within for value in uses.lists.get(name, ()) if value != _ANY)
            else:
                waiting += uses.lists.get(whole[1] if whole else part, ())
    is_any |= len(mixed) > MAX_PATTERNS or any(len(one) > MAX_NAME_CHARS or "${${" in one for one in mixed)
    return _Used(names, [] if is_any else [_pattern(one) for one in mixed], uses.libraries, is_any, runs)


def _pattern(mixed: str) -> re.Pattern[str]:
    """Of a name that variables are part of. What is between two fits best where it fits first."""
    first, *others = re.split(r"\$\{[^}]*\}?", mixed)
    last = others.pop()
    inner = "".join(f"(?>.*?{re.escape(one)})" for one in others if one)
    return re.compile(f"{re.escape(first)}{inner}.*{re.escape(last)}")


def _is_product(command: _Command, used: _Used) -> bool:
    target = command.given[0] if command.given else ""
    is_plain = re.fullmatch(r"[\w.+-]+", target) is not None
    looks_like_tests = re.search("test|spec|bench|check", target, re.IGNORECASE) is not None
    return command.name in _WITH_SOURCES and is_plain and not looks_like_tests and target not in used


def _without_sources(command: _Command, used: _Used, products: set[str]) -> tuple[str, tuple[tuple[str, str], ...]]:
    name, given, words = command.name, command.given, zip(command.given, command.written, strict=True)
    if name in ("project", "find_package"):
        return name, tuple(one for one in words if not _VERSION.fullmatch(one[0]))
    first = 2 if name == "list" and given[:1] == ("APPEND",) else 1
    is_list = name == "set" or first == 2
    if _is_product(command, used) or (is_list and len(given) >= first and given[first - 1] in products):
        kept = tuple(islice(words, first))
        return name, (*kept, *(one for one in words if one[1].startswith("+") or not _is_source(one[0])))
    return name, tuple(words)


def _is_source(word: str) -> bool:
    path = re.sub(r"^\$\{(?:CMAKE_CURRENT_SOURCE_DIR|PROJECT_SOURCE_DIR|CMAKE_SOURCE_DIR)\}/", "", word)
    return _SOURCE.fullmatch(path) is not None and not is_test_file(posixpath.normpath(path))
