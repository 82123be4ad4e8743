"""A tool's parameters as JSON Schema, and the check of a model's arguments against it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast

import jsonschema
from jsonschema.exceptions import SchemaError, ValidationError
from referencing import Registry
from referencing.exceptions import Unresolvable

TOO_DEEP = "they are nested too deeply"
# The library would fetch what a schema refers to, and not all schemas are ours.
NOWHERE: Registry[Any] = Registry()


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
    """Does it make sense as a JSON Schema, and come to an end? Those of others need not."""
    return not schema_fault(schema) and first_fault(schema, {}) != TOO_DEEP


def first_fault(schema: Mapping[str, Any], arguments: Mapping[str, Any]) -> str | None:
    """What is wrong with the arguments, in one sentence for the model; None when nothing is."""
    validator = jsonschema.Draft202012Validator(cast(dict[str, Any], schema), registry=NOWHERE)
    faults = cast(Iterable[ValidationError], validator.iter_errors(dict(arguments)))  # pyright: ignore[reportUnknownMemberType]
    try:
        fault = next(iter(faults), None)
    except RecursionError:
        return TOO_DEEP
    except Unresolvable:  # of a foreign schema; whose it is will judge
        return None
    if fault is None:
        return None
    return _sentence(fault)


def schema_fault(schema: Mapping[str, Any]) -> str:
    """What makes a schema none, in one sentence; empty when nothing does."""
    try:
        jsonschema.Draft202012Validator.check_schema(cast(dict[str, Any], schema))  # pyright: ignore[reportUnknownMemberType]
    except SchemaError as e:
        return _sentence(e)
    except RecursionError:
        return "it is nested too deeply"
    return ""


def _sentence(fault: ValidationError | SchemaError) -> str:
    place = ".".join(str(part) for part in fault.absolute_path)
    return f"{place}: {fault.message}" if place else fault.message
