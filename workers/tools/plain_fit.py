"""Whether a value plainly fits a JSON Schema: a quick yes for what nearly all calls are. Pure.

The library takes five times as long, most of it to find its way around in itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

_TYPES: Mapping[str, type] = {"string": str, "integer": int, "boolean": bool, "array": list, "object": dict}
MAX_CHOICES = 100  # each item of a long list is looked for among them, and nothing looks at the time here
_SAYS_NOTHING = frozenset({"type", "title", "description"})  # the type is looked at first


def plainly_fits(schema: object, value: object) -> bool:
    """False: it does not, or the schema says more than is understood here, or makes no sense."""
    try:
        return _fits(schema, value)
    except (TypeError, AttributeError, LookupError, RecursionError):  # schemas come from anybody
        return False


def _fits(schema: object, value: object) -> bool:
    said = cast(dict[str, Any], schema)
    kind = said["type"]
    if type(value) is not _TYPES[kind]:  # True is an int in Python alone
        return False
    checks = _CHECKS[kind]
    return all(name in _SAYS_NOTHING or checks[name](wanted, value, said) for name, wanted in said.items())


def _properties_fit(wanted: Any, value: Any, schema: Mapping[str, Any]) -> bool:
    return all(_fits(wanted[name], inner) for name, inner in value.items() if name in wanted)


def _others_fit(wanted: Any, value: Any, schema: Mapping[str, Any]) -> bool:
    return wanted is True or (wanted is False and value.keys() <= schema.get("properties", {}).keys())


# What is said of another type than the value's is no matter of its fit; schemas that say such a thing are not plain.
_CHECKS: Mapping[str, Mapping[str, Callable[[Any, Any, Mapping[str, Any]], bool]]] = {
    "string": {
        "enum": lambda wanted, value, schema: len(wanted) <= MAX_CHOICES and value in wanted,
        "minLength": lambda wanted, value, schema: len(value) >= wanted,
        "maxLength": lambda wanted, value, schema: len(value) <= wanted,
    },
    "integer": {
        "minimum": lambda wanted, value, schema: value >= wanted,
        "maximum": lambda wanted, value, schema: value <= wanted,
    },
    "boolean": {},
    "array": {
        "items": lambda wanted, value, schema: all(_fits(wanted, item) for item in value),
        "minItems": lambda wanted, value, schema: len(value) >= wanted,
        "maxItems": lambda wanted, value, schema: len(value) <= wanted,
    },
    "object": {
        "properties": _properties_fit,
        "required": lambda wanted, value, schema: all(name in value for name in wanted),
        "additionalProperties": _others_fit,
    },
}
