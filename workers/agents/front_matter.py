"""A file's front matter: the keys between two lines `---`, and the text below them. Pure.

Such files come from repositories, so whatever stands there must end in keys or in `BadAgent`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Hashable, Iterator
from typing import Any, cast

import yaml

from ..errors import BadAgent

FENCE = "---"
# A long description with examples has 4,000; what is longer is no description of an agent.
MAX_CHARS = 64_000
# People write `description: Use it when: …`, and the tools that these files come from let them.
_UNQUOTED = re.compile(r"^([A-Za-z_][\w-]*):[ \t]+(?![\s\"'\[{|>&*!%@`#])(.*\S)\s*$")
_COLON = re.compile(r":(\s|$)")
_COMMENT = re.compile(r"\s#")


class _Loader(yaml.SafeLoader):
    """YAML in which no key is written twice: the first would be lost in silence."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if str(key.value) in seen:
                raise yaml.MarkedYAMLError(problem=f"the key {key.value!r} a second time", problem_mark=key.start_mark)
            seen.add(str(key.value))
        return super().construct_mapping(node, deep)


def split(name: str, text: str) -> tuple[dict[str, Any], str]:
    """The keys and the body of the file of agent `name`; `BadAgent` names the line that is broken."""
    lines = text.removeprefix("\ufeff").replace("\r\n", "\n").split("\n")
    fences = [number for number, line in enumerate(lines) if line.rstrip() == FENCE]
    if fences[:1] != [0]:
        raise BadAgent(f"agent {name!r} has no front matter", hint="start the file with `---`, keys, and `---` again")
    if len(fences) == 1:
        raise BadAgent(f"agent {name!r} has no front matter that ends", hint="write `---` below the last key")
    written = lines[1 : fences[1]]
    if sum(map(len, written)) > MAX_CHARS:
        raise BadAgent(f"the front matter of agent {name!r} is too long", hint="put the prompt below the second `---`")
    front = _load(name, written)
    if not isinstance(front, dict):
        raise BadAgent(f"the front matter of agent {name!r} is no map of keys", hint="write `key: value` lines")
    keys = {str(key): value for key, value in cast(dict[Any, Any], front).items()}
    return keys, "\n".join(lines[fences[1] + 1 :]).strip()


def _load(name: str, written: list[str]) -> object:
    try:
        return _parse(written)
    except yaml.YAMLError as e:
        repaired = [_quoted(line) for line in written]
        if repaired == written:
            raise _broken(name, e) from e
    try:
        return _parse(repaired)
    except yaml.YAMLError as e:
        raise _broken(name, e) from e


def _parse(lines: list[str]) -> object:
    text = "\n".join(lines)
    try:
        for event in cast("Iterator[yaml.Event]", yaml.parse(text)):  # pyright: ignore[reportUnknownMemberType]
            if isinstance(event, yaml.AliasEvent):  # ten lines of them are a gigabyte
                raise yaml.MarkedYAMLError(problem="an alias, which has no place here", problem_mark=event.start_mark)
        return yaml.load(text, _Loader) or {}  # noqa: S506 - a safe loader, made stricter
    except yaml.YAMLError:
        raise
    except RecursionError as e:
        raise yaml.YAMLError("it is nested too deeply") from e
    except (ValueError, KeyError, AttributeError) as e:  # a date or a truth that is none, a number of a million digits
        raise yaml.YAMLError(str(e)) from e


def _quoted(line: str) -> str:
    """A line `key: text: more` with the text in quotes; any other line as it is."""
    found = _UNQUOTED.match(line)
    if found is None or not _COLON.search(found[2]) or _COMMENT.search(found[2]):
        return line
    return f"{found[1]}: {json.dumps(found[2], ensure_ascii=False)}"


def _broken(name: str, error: yaml.YAMLError) -> BadAgent:
    mark = error.problem_mark if isinstance(error, yaml.MarkedYAMLError) else None
    where = "" if mark is None else f" in line {mark.line + 2}"  # lines count from 1, and the fence is the first
    problem = error.problem if isinstance(error, yaml.MarkedYAMLError) else str(error)
    return BadAgent(
        f"the front matter of agent {name!r} is not YAML{where}: {problem}", hint="quote values with a colon in"
    )
