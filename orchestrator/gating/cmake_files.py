"""What of a CMake file counts for tests: all but plain lists of the product's own sources, and versions. Pure."""

from __future__ import annotations

import posixpath
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
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


MAX_PROJECT_CHARS = 200  # of its name, which is put in for each mention


class BadCMake(ValueError):
    """No such file as CMake would read."""


@dataclass(frozen=True, slots=True)
class _Command:
    """`written`: how each word `given` is: a quote, a bracket or a parenthesis, after `+` or `;` where no blank is
    before it. `if("X")` is about a text, and `if(X)` about a variable."""

    name: str
    given: tuple[str, ...]
    written: tuple[str, ...]


def what_counts(text: str, run_elsewhere: Collection[str] | None = ()) -> list[tuple[str, tuple[tuple[str, str], ...]]]:
    """Comparable. Sources of a target that a test may run are kept, and so are those that are tests by their names.
    `run_elsewhere`: targets that other files may name (see `targets_run`); None is all.

    >>> before = what_counts("add_library(calc calc.c) # of numbers")
    >>> before == what_counts("add_library(calc calc.c more.c)"), before == what_counts("add_library(calc ${X})")
    (True, False)
    """
    commands = _read(text)
    used = None if run_elsewhere is None else _targets_used(commands) | {*run_elsewhere}
    mentions, listed = Counter[str](), Counter[str]()
    for one in commands:
        names = Counter(name for word in one.given for name in _VARIABLE.findall(word))
        mentions.update(names)
        if _is_product(one, used):
            listed.update(names)
    products = {name for name, count in listed.items() if count == mentions[name]}
    return [_without_sources(one, used, products) for one in commands]


def targets_run(texts: Iterable[str | None]) -> frozenset[str] | None:
    """Words that may be targets, of which some command of these files may run one. None where one cannot be read."""
    try:
        return frozenset(_targets_used([one for text in texts for one in _read(text if text is not None else "(")]))
    except BadCMake:
        return None


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


def _targets_used(commands: Sequence[_Command]) -> set[str]:
    """Words that may be targets, of which a command may run or register something; also by a list of them."""
    lists: dict[str, list[str]] = {}
    waiting: list[str] = []
    for one in commands:
        first = 2 if one.name == "list" else 1
        if one.name in ("set", "list") and len(one.given) >= first:
            lists.setdefault(one.given[first - 1], []).extend(one.given[first:])
        elif one.name not in _WITH_SOURCES and one.name not in _HARMLESS:
            waiting += one.given
    used: set[str] = set()
    while waiting:
        word = waiting.pop()
        parts = {*re.split(r"[\s:<>;,]+", word), *_VARIABLE.findall(word)} - used
        used |= parts
        waiting += (value for part in parts for value in lists.get(part, ()))
    return used


def _is_product(command: _Command, used: Collection[str] | None) -> bool:
    target = command.given[0] if command.given else ""
    is_plain = re.fullmatch(r"[\w.+-]+", target) is not None
    looks_like_tests = re.search("test|spec|bench|check", target, re.IGNORECASE) is not None
    is_free = used is not None and target not in used
    return command.name in _WITH_SOURCES and is_plain and not looks_like_tests and is_free


def _without_sources(
    command: _Command, used: Collection[str] | None, products: set[str]
) -> tuple[str, tuple[tuple[str, str], ...]]:
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
