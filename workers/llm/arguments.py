"""A tool call's arguments: text from a model, as an object that fits into messages and sessions. Pure.

The only file that names json_repair.
"""

from __future__ import annotations

import copy
import json
import math
import re
from typing import Any, cast

from json_repair import repair_json
from pydantic_core import to_json

from ..duck import is_light

# The code of the warning that tells of a repair, which metrics count.
ARGUMENTS_REPAIRED = "arguments_repaired"

# No tool takes more than a list of objects. What is much deeper overflows whoever walks through it.
MAX_DEPTH = 32
# Of one call, and of what is kept of a reply: each is looked at.
MAX_VALUES = 200_000
# Of one reply as its provider sent it: its words twice, sealed thoughts, a picture or two.
MAX_KEPT_BYTES = 8 * 1024 * 1024
# Repair is guesswork in Python, up to 0.1 s for the worst text of this length (measured); longer ones hold whole files,
# and whoever guesses at those writes a wrong one.
MAX_REPAIRED_CHARS = 32_768
_MARK = re.compile(r'\\.|["{}\[\]()]', re.DOTALL)


class Repairs:
    """Those of one reply: together they take no longer than the longest of one. What comes later stays broken."""

    def __init__(self) -> None:
        self._known: dict[str, dict[str, Any] | None] = {}
        self._left_chars = MAX_REPAIRED_CHARS

    def of(self, arguments: str) -> dict[str, Any] | None:
        if arguments not in self._known:
            self._left_chars -= len(arguments)
            self._known[arguments] = repaired(arguments) if self._left_chars >= 0 else None
        return copy.deepcopy(self._known[arguments])


def parsed(arguments: str) -> dict[str, Any] | None:
    """A call's arguments as an object; None when they are anything else. No arguments at all are an empty object.

    >>> parsed('{"a": 1}'), parsed(""), parsed('{"a": ')
    ({'a': 1}, {}, None)
    """
    if not is_light(arguments.encode("utf-8", "replace"), MAX_VALUES):
        return None
    try:
        value: object = json.loads(arguments or "{}")
    except (ValueError, RecursionError):
        return None
    return _object(value)


def repaired(arguments: str) -> dict[str, Any] | None:
    """What broken JSON was meant to say; None when it is whole, is no object, or its end is missing.

    A text that stops inside a string is a reply that was cut: a half-written file must not pass for a whole one. Of
    several values in one text nobody knows which one was meant.

    >>> repaired("{'path': 'a.py',}"), repaired('{"path": "a.py"'), repaired('{"content": "half a fi')
    ({'path': 'a.py'}, {'path': 'a.py'}, None)
    >>> repaired('{"command": "ls"} {"command": "pwd"}')
    """
    if (
        len(arguments) > MAX_REPAIRED_CHARS
        or not arguments.strip()
        or _is_whole(arguments)
        or _is_beyond_repair(arguments)
    ):
        return None
    try:
        return _object(cast(object, repair_json(arguments, return_objects=True, skip_json_loads=True)))
    except (ValueError, TypeError, LookupError, RecursionError):  # whatever the library trips over in a stranger's text
        return None


def _is_whole(arguments: str) -> bool:
    """JSON that is no object, or holds what travels nowhere, was not written wrongly: it says something else."""
    try:
        json.loads(arguments)
    except RecursionError:
        return True
    except ValueError:
        return False
    return True


def _is_beyond_repair(arguments: str) -> bool:
    """Does the text stop inside a string, hold several values, or nest too deep to be repaired in reasonable time?"""
    depth, in_string, values = 0, False, 0
    for found in _MARK.finditer(arguments):
        mark = found[0]
        if mark == '"':
            in_string = not in_string
        elif not in_string and len(mark) == 1:
            values += depth <= 0 and mark in "{["
            depth += 1 if mark in "{[(" else -1
            if depth > MAX_DEPTH or values > 1:
                return True
    return in_string


def _object(value: object) -> dict[str, Any] | None:
    return cast(dict[str, Any], value) if isinstance(value, dict) and travels(cast(object, value)) else None


def is_text(text: str) -> bool:
    """Can it be encoded? JSON lets a model write half a surrogate pair, which is no character."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def travels(value: object, room: int = MAX_DEPTH) -> bool:
    """Does it fit into messages and sessions? Not all JSON does."""
    match value:
        case str():
            return is_text(value)
        case int():
            return -(2**63) <= value < 2**64
        case float():
            return math.isfinite(value)
        case dict():
            inner = cast(dict[str, object], value)
            return room > 0 and all(is_text(key) and travels(part, room - 1) for key, part in inner.items())
        case list():
            return room > 0 and all(travels(part, room - 1) for part in cast(list[object], value))
        case _:
            return True


def is_keepable(items: list[Any]) -> bool:
    """Can what a provider sent be stored as it came, and goes back with each request?"""
    try:
        kept = to_json(items)
    except ValueError:  # of what is no text, or too deep
        return False
    return len(kept) <= MAX_KEPT_BYTES and is_light(kept, MAX_VALUES) and travels(items)
