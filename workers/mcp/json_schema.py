"""A foreign server's JSON Schema, cut to what may be checked here and sent on. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, cast

from ..tools.schema import NOT_CHECKED

MAX_DEPTH = 12
MAX_ITEMS = 200  # of one object or list
# Each is sent with every model call, and there may be a hundred of them; what is larger says what it wants by itself.
MAX_BYTES = 16 * 1024
# A pattern is a program that can run for ever, and a format or a vocabulary something to look up.
LEFT_OUT = frozenset(
    {"pattern", "patternProperties", "format", "$schema", "$id", "$dynamicRef", "$anchor", "$vocabulary", *NOT_CHECKED}
)


def safe_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The schema of an object, without references to elsewhere, patterns, and what lies too deep.

    >>> safe_schema({"properties": {"a": {"type": "string", "pattern": "(x+)+"}, "b": {"$ref": "http://x/y"}}})
    {'properties': {'a': {'type': 'string'}, 'b': {}}, 'type': 'object'}
    """
    safe = cast(dict[str, Any], _safe(dict(schema), MAX_DEPTH))
    safe |= {"type": "object"}
    return safe if len(json.dumps(safe, default=str)) <= MAX_BYTES else {"type": "object"}


def _safe(value: Any, depth: int) -> Any:
    if depth == 0:
        return {} if isinstance(value, Mapping) else []
    if isinstance(value, Mapping):
        items = [*cast(Mapping[str, Any], value).items()][:MAX_ITEMS]
        return {key: _kept(inner, depth) for key, inner in items if not _is_left_out(key, inner)}
    return _kept(value, depth)


def _kept(value: Any, depth: int) -> Any:
    if isinstance(value, list):
        return [_safe(inner, depth - 1) for inner in cast(list[Any], value)[:MAX_ITEMS]]
    return _safe(value, depth - 1) if isinstance(value, Mapping) else value


def _is_left_out(key: str, value: Any) -> bool:
    """As a keyword; a property that is merely called so has an object as its value."""
    if key == "patternProperties":  # its patterns are its keys
        return True
    if key == "$ref":
        return not (isinstance(value, str) and value.startswith("#/$defs/"))
    return key in LEFT_OUT and not isinstance(value, Mapping)
