"""A request's `output_schema`, looked at before anything is spent on it. Pure.

It comes from whoever submits, so it is bounded, and it refers to nothing but itself: nothing is ever fetched for it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, cast
from urllib.parse import unquote

from envelope.messages import TaskRequest
from repo.fairness import beside

from ..errors import BadInput
from ..tools.base import Tool
from ..tools.schema import NOT_CHECKED, TOO_LONG, first_fault, pattern_fault, schema_fault
from ..tools.structured_output import STRUCTURED_OUTPUT, StructuredOutput

# A schema is sent with every model call; 64 KiB are 16,000 tokens.
MAX_SCHEMA_BYTES = 64 * 1024
MAX_DEPTH = 32
MAX_PARTS = 5_000  # objects in it; each takes 0.2 ms to be looked at
HINT = "send a JSON Schema (draft 2020-12) of type object"


async def answer_tools(request: TaskRequest) -> dict[str, Tool]:
    """The tool that gives the answer, where the request wants one of a certain form; `BadInput` for a bad schema.

    Beside the event loop: a large one takes a second to be checked.
    """
    if request.output_schema is None:
        return {}
    schema = await beside.run(request.tenant, partial(answer_schema, request.output_schema))
    return {STRUCTURED_OUTPUT: StructuredOutput(schema)}


def answer_schema(written: Mapping[str, Any]) -> dict[str, Any]:
    """The schema as a tool's parameters; `BadInput` says what is wrong with it.

    Providers want `type: object` to stand there, and a name of its own would change what its references mean.
    """
    schema = {key: value for key, value in written.items() if key not in ("$id", "$schema")}
    if _depth(schema) > MAX_DEPTH:
        raise BadInput(f"the output schema is nested more than {MAX_DEPTH} levels deep", hint="flatten it")
    if (size := len(json.dumps(schema, default=str).encode())) > MAX_SCHEMA_BYTES:
        raise BadInput(f"the output schema has {size} bytes, more than {MAX_SCHEMA_BYTES}", hint="ask for less at once")
    if sum(1 for _ in _objects(schema)) > MAX_PARTS:
        raise BadInput(f"the output schema has more than {MAX_PARTS} parts", hint="ask for less at once")
    if schema.setdefault("type", "object") != "object":
        raise BadInput("the output schema is not of type object", hint="wrap what you want in an object's property")
    if fault := _reference_fault(schema) or schema_fault(schema) or _keyword_fault(schema):
        raise BadInput(f"the output schema cannot be used: {fault}", hint=HINT)
    if first_fault(schema, {}) == TOO_LONG:
        raise BadInput("the output schema takes too long to be checked", hint="let fewer $ref lead to each other")
    return schema


def _depth(value: object) -> int:
    """Level by level, and no deeper than what is allowed: a recursion would end before it could say so."""
    level, depth = [value], 0
    while level and depth <= MAX_DEPTH:
        level, depth = [inner for outer in level for inner in _inside(outer)], depth + 1
    return depth


def _reference_fault(schema: dict[str, Any]) -> str:
    for node in _objects(schema):
        for key in ("$id", "$schema", "$dynamicRef", "$recursiveRef"):
            if isinstance(node.get(key), str):
                return f"{key} is not supported inside a schema; use $ref to #/$defs/…"
        if isinstance(ref := node.get("$ref"), str) and not _leads_somewhere(schema, ref):
            return f"$ref {ref[:200]!r} leads to nothing within the schema, and nothing else is read"
    return ""


def _keyword_fault(schema: dict[str, Any]) -> str:
    """Patterns for names are matched by the library, which sets them no time."""
    for node in _objects(schema):
        for key in NOT_CHECKED & node.keys():
            if isinstance(node[key], dict | bool):
                return f"{key} is not supported; say additionalProperties or items where the others stand"
        if isinstance(node.get("patternProperties"), dict):
            return "patternProperties is not supported; use additionalProperties, and say in a description what fits"
        pattern = node.get("pattern")
        if isinstance(pattern, str) and (fault := pattern_fault(pattern)):
            return f"the pattern {pattern[:200]!r} is none: {fault}"
    return ""


def _leads_somewhere(schema: object, ref: str) -> bool:
    if ref == "#":
        return True
    if not ref.startswith("#/"):
        return False
    here = schema
    for part in unquote(ref[2:]).split("/"):
        name = part.replace("~1", "/").replace("~0", "~")
        match here:
            case dict() if name in cast(dict[str, Any], here):
                here = cast(dict[str, Any], here)[name]
            case list() if name.isdecimal() and int(name) < len(cast(list[Any], here)):
                here = cast(list[Any], here)[int(name)]
            case _:
                return False
    return isinstance(here, dict | bool)


def _objects(value: object) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield cast(dict[str, Any], value)
    for inner in _inside(cast(object, value)):
        yield from _objects(inner)


def _inside(value: object) -> Sequence[object]:
    match value:
        case dict():
            return [*cast(dict[str, object], value).values()]
        case list() | tuple():
            return [*cast(Sequence[object], value)]
        case _:
            return ()
