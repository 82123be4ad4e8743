"""A file's front matter: the keys between two lines `---`, and the text below them.

Such files come from repositories, so whatever stands there must end in keys or in `BadFrontMatter`.
"""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Callable, Hashable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, TypeVar, cast

import yaml

from repo.fairness import beside
from transport.blobs.owners import acting_tenant

T = TypeVar("T")

FENCE = "---"
# A long description with examples has 4,000; what is longer is no description of anything.
MAX_CHARS = 64_000
# Of processor time for all files of a kind, of which a hundred ordinary ones take a tenth. What comes later is broken.
MAX_READ_S = 3.0
MAX_DEPTH = 50  # rules of permissions are three deep
# People write `description: Use it when: …`, and the tools that these files come from let them.
_UNQUOTED = re.compile(r"^([A-Za-z_][\w-]*):[ \t]+(?![\s\"'\[{|>&*!%@`#])(.*\S)\s*$")
_ENTRY = re.compile(r"([A-Za-z_][\w-]*):\s+(\S.*)")
_COLON = re.compile(r":(\s|$)")
_COMMENT = re.compile(r"\s#")


class BadFrontMatter(ValueError):
    """In words for who wrote the file: `fault` follows the file's name, `hint` says what to do."""

    def __init__(self, fault: str, hint: str) -> None:
        super().__init__(f"{fault}; {hint}")
        self.fault = fault
        self.hint = hint


class TooLong(BadFrontMatter):
    def __init__(self) -> None:
        super().__init__("there is no time to read it", "have fewer and shorter files beside it")


_ends_s: ContextVar[float] = ContextVar("ends_s", default=math.inf)  # by this thread's processor time


async def read_beside(read: Callable[[], T]) -> T:
    """What `read` makes of many files with front matter: beside the event loop, and in `MAX_READ_S` of its own time."""

    def in_time() -> T:
        _ends_s.set(time.thread_time() + MAX_READ_S)
        return read()

    return await beside.run(acting_tenant(), in_time)


class _Typed(yaml.SafeLoader):
    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        _each_key_once(node)
        return super().construct_mapping(node, deep)


class _Strings(yaml.BaseLoader):
    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        _each_key_once(node)
        return super().construct_mapping(node, deep)


def _each_key_once(node: yaml.MappingNode) -> None:
    """The first of two would be lost in silence."""
    seen: set[str] = set()
    for key, _ in node.value:
        if str(key.value) in seen:
            raise yaml.MarkedYAMLError(problem=f"the key {key.value!r} a second time", problem_mark=key.start_mark)
        seen.add(str(key.value))


@dataclass(frozen=True, slots=True)
class Dialect:
    """What a scalar becomes, and how a line is mended when the whole is no YAML."""

    loader: type[_Typed] | type[_Strings]
    mended: Callable[[str], str]


def read_front_matter(text: str, dialect: Dialect) -> tuple[dict[str, Any] | None, str]:
    """The keys (None: the file has no front matter) and the body; `BadFrontMatter` names the line that is broken."""
    lines = text.removeprefix("\ufeff").replace("\r\n", "\n").split("\n")
    if lines[0].rstrip() != FENCE:
        return None, "\n".join(lines).strip()
    end = next((number for number, line in enumerate(lines) if number and line.rstrip() == FENCE), None)
    if end is None:
        raise BadFrontMatter("it has no front matter that ends", "write `---` below the last key")
    written = lines[1:end]
    if sum(map(len, written)) > MAX_CHARS:
        raise BadFrontMatter("its front matter is too long", "put the prompt below the second `---`")
    front = _load(written, dialect)
    if not isinstance(front, dict):
        raise BadFrontMatter("its front matter is no map of keys", "write `key: value` lines")
    keys = {str(key): value for key, value in cast(dict[Any, Any], front).items()}
    return keys, "\n".join(lines[end + 1 :]).strip()


def _load(written: list[str], dialect: Dialect) -> object:
    try:
        return _parse(written, dialect.loader)
    except yaml.YAMLError as e:
        mended = [dialect.mended(line) for line in written]
        if mended == written:
            raise _broken(e) from e
    try:
        return _parse(mended, dialect.loader)
    except yaml.YAMLError as e:
        raise _broken(e) from e


def _parse(lines: list[str], loader: type[_Typed] | type[_Strings]) -> object:
    text = "\n".join(lines)
    try:
        _refuse_what_blows_up(text)
        return yaml.load(text, loader) or {}  # noqa: S506 - a safe loader, made stricter
    except (yaml.YAMLError, TooLong):
        raise
    except RecursionError as e:
        raise yaml.YAMLError("it is nested too deeply") from e
    except (ValueError, KeyError, AttributeError) as e:  # a date or a truth that is none, a number of a million digits
        raise yaml.YAMLError(str(e)) from e


def _refuse_what_blows_up(text: str) -> None:
    """Ten lines of aliases are a gigabyte; a list in a list in a list … costs the square of its depth."""
    depth = 0
    for event in cast("Iterator[yaml.Event]", yaml.parse(text)):  # pyright: ignore[reportUnknownMemberType]
        if time.thread_time() > _ends_s.get():
            raise TooLong
        if isinstance(event, yaml.AliasEvent):
            raise yaml.MarkedYAMLError(problem="an alias, which has no place here", problem_mark=event.start_mark)
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > MAX_DEPTH:
            raise yaml.MarkedYAMLError(problem="it is nested too deeply", problem_mark=event.start_mark)


def _quoted(line: str) -> str:
    """A line `key: text: more` with the text in quotes; any other line as it is."""
    found = _UNQUOTED.match(line)
    if found is None or not _COLON.search(found[2]) or _COMMENT.search(found[2]):
        return line
    return f"{found[1]}: {json.dumps(found[2], ensure_ascii=False)}"


def _quoted_if_broken(line: str) -> str:
    """A line `key: value` whose value is no YAML, with the value in quotes; any other line as it is."""
    entry = _ENTRY.fullmatch(line)
    return f"{entry[1]}: {json.dumps(entry[2].rstrip(), ensure_ascii=False)}" if entry and not _is_yaml(line) else line


def _is_yaml(line: str) -> bool:
    try:
        _parse([line], _Strings)
    except yaml.YAMLError:
        return False
    return True


def _broken(error: yaml.YAMLError) -> BadFrontMatter:
    mark = error.problem_mark if isinstance(error, yaml.MarkedYAMLError) else None
    where = "" if mark is None else f" in line {mark.line + 2}"  # lines count from 1, and the fence is the first
    problem = error.problem if isinstance(error, yaml.MarkedYAMLError) else str(error)
    return BadFrontMatter(f"its front matter is not YAML{where}: {problem}", "quote values with a colon in")


# Numbers and truths are what they are in YAML: a wrong one is found.
TYPED = Dialect(_Typed, _quoted)
# Every scalar is the string that was written, also where YAML would want quotes.
STRINGS = Dialect(_Strings, _quoted_if_broken)
