"""A tool's parameters as JSON Schema, and the check of a model's arguments against it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast

import jsonschema
from jsonschema.exceptions import SchemaError, ValidationError
from referencing import Registry
from referencing.exceptions import Unresolvable

from envelope.logs import get_logger

_log = get_logger("schema")


def parameters(required: Iterable[str], **properties: dict[str, Any]) -> dict[str, Any]:
    """An object with these properties and no others."""
    return {"type": "object", "properties": properties, "required": [*required], "additionalProperties": False}


def text(description: str) -> dict[str, Any]:
    return {"type": "string", "description": description}


def count(description: str) -> dict[str, Any]:
    return {"type": "integer", "minimum": 1, "description": description}


def flag(description: str) -> dict[str, Any]:
    return {"type": "boolean", "description": description}


def is_schema(schema: Mapping[str, Any]) -> bool:
    """Does it make sense as a JSON Schema? Those of others need not."""
    try:
        jsonschema.Draft202012Validator.check_schema(cast(dict[str, Any], schema))
    except SchemaError:
        return False
    return True


def first_fault(schema: Mapping[str, Any], arguments: Mapping[str, Any]) -> str | None:
    """What is wrong with the arguments, in one sentence for the model; None when nothing is."""
    # an empty registry: the library would fetch what a schema refers to, and not all schemas are ours
    validator = jsonschema.Draft202012Validator(cast(dict[str, Any], schema), registry=Registry())
    faults = cast(Iterable[ValidationError], validator.iter_errors(dict(arguments)))  # pyright: ignore[reportUnknownMemberType]
    try:
        fault = next(iter(faults), None)
    except (RecursionError, Unresolvable) as error:  # of a foreign schema; whose it is will judge
        _log.warning("schema_not_checkable", error=repr(error)[:200])
        return None
    if fault is None:
        return None
    place = ".".join(str(part) for part in fault.absolute_path)
    return f"{place}: {fault.message}" if place else fault.message
