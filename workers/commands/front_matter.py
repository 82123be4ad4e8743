"""The front matter of a command's file, which may have none: keys between two lines of `---`, then the body. Pure."""

from __future__ import annotations

import json
import re
from typing import Any, cast

import yaml

FENCE = "---"
MAX_CHARS = 64_000  # what is longer is no front matter
_ENTRY = re.compile(r"([A-Za-z_][\w-]*):\s+(.*\S)\s*")


class BadFrontMatter(ValueError):
    """In words for who wrote the file."""


def parse_front_matter(text: str) -> tuple[dict[str, Any], str]:
    """The keys and the body; no keys when the file has no front matter. Every scalar is a string.

    A value that YAML wants quoted, as one with a colon in it, is taken as it is meant.
    """
    lines = text.removeprefix("\ufeff").replace("\r\n", "\n").split("\n")
    if lines[0].rstrip() != FENCE:
        return {}, "\n".join(lines).strip()
    fences = [number for number, line in enumerate(lines) if line.rstrip() == FENCE]
    if len(fences) < 2:
        raise BadFrontMatter("the front matter has no end; write `---` below its last key")
    written = lines[1 : fences[1]]
    if sum(map(len, written)) > MAX_CHARS:
        raise BadFrontMatter("the front matter is too long; put the prompt below the second `---`")
    return _keys(written), "\n".join(lines[fences[1] + 1 :]).strip()


def _keys(lines: list[str]) -> dict[str, Any]:
    try:
        found = _loaded(lines)
    except BadFrontMatter:
        found = _loaded([_repaired(line) for line in lines])
    if not found:
        return {}
    if not isinstance(found, dict):
        raise BadFrontMatter("the front matter is no map of keys; write `key: value` lines")
    return {str(key): value for key, value in cast(dict[Any, Any], found).items()}


def _loaded(lines: list[str]) -> object:
    # The base loader makes strings, lists and maps and nothing else; the others raise half a dozen kinds of errors
    # for scalars that only look like dates or numbers, or say that they are.
    try:
        return yaml.load("\n".join(lines), Loader=yaml.BaseLoader)  # noqa: S506
    except (yaml.YAMLError, RecursionError) as e:
        raise BadFrontMatter("the front matter is not YAML; quote values with a colon in") from e


def _repaired(line: str) -> str:
    """A line `key: value` whose value is no YAML, with the value in quotes; any other line as it is."""
    entry = _ENTRY.fullmatch(line)
    return f"{entry[1]}: {json.dumps(entry[2], ensure_ascii=False)}" if entry and not _is_yaml(line) else line


def _is_yaml(line: str) -> bool:
    try:
        _loaded([line])
    except BadFrontMatter:
        return False
    return True
