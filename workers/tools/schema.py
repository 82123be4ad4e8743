"""A tool's parameters as JSON Schema, and the check of a model's arguments against it.

Schemas come from submitters and from foreign servers, arguments from models: a page of either can ask for a check of
years (references that double, patterns that try everything), and a worker's other sessions wait for it meanwhile.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextvars import ContextVar
from functools import partial
from typing import Any, cast

import jsonschema
import regex
from jsonschema.exceptions import SchemaError, ValidationError
from jsonschema.validators import extend  # pyright: ignore[reportUnknownVariableType]
from referencing import Registry
from referencing.exceptions import Unresolvable

from repo.fairness import beside

from .plain_fit import plainly_fits

TOO_DEEP = "they are nested too deeply"
TOO_LONG = "they take too long to be checked; say it shorter and simpler"
# Of processor time for one check; those of our own tools take a millisecond, and of large foreign ones a fifth of this.
MAX_CHECK_S = 0.5
# The library follows references for these by itself, past every keyword and with no end to its time.
NOT_CHECKED = frozenset({"unevaluatedItems", "unevaluatedProperties"})
MAX_FAULT_CHARS = 4000
# The library would fetch what a schema refers to, and not all schemas are ours.
NOWHERE: Registry[Any] = Registry()

Check = Callable[[Any, Any, Any, Any], Iterable[ValidationError]]


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
    return not schema_fault(schema) and first_fault(schema, {}) not in (TOO_DEEP, TOO_LONG)


async def find_fault(schema: Mapping[str, Any], arguments: Mapping[str, Any], tenant: str) -> str | None:
    """As `first_fault`; no other session waits for it."""
    if plainly_fits(schema, arguments):
        return None
    return await beside.run(tenant, partial(first_fault, schema, arguments))


def first_fault(schema: Mapping[str, Any], arguments: Mapping[str, Any]) -> str | None:
    """What is wrong with the arguments, in one sentence for the model; None when nothing is."""
    if plainly_fits(schema, arguments):
        return None
    validator = _Validator(cast(dict[str, Any], schema), registry=NOWHERE)
    faults = cast(Iterable[ValidationError], validator.iter_errors(dict(arguments)))
    running = _ends_s.set(time.thread_time() + MAX_CHECK_S)
    try:
        fault = next(iter(faults), None)
    except RecursionError:
        return TOO_DEEP
    except TimeoutError:
        return TOO_LONG
    except Unresolvable:  # of a foreign schema; whose it is will judge
        return None
    finally:
        _ends_s.reset(running)
    return None if fault is None else _sentence(fault)


def pattern_fault(pattern: str) -> str:
    """Why a text is no regular expression; empty when it is one."""
    try:
        regex.compile(pattern)
    except regex.error as e:
        return str(e)
    return ""


def schema_fault(schema: Mapping[str, Any]) -> str:
    """What makes a schema none, in one sentence; empty when nothing does. Takes a second for 5,000 parts."""
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


_ends_s: ContextVar[float] = ContextVar("ends_s")  # of the check that runs, by this thread's processor time


def _left_s() -> float:
    left_s = _ends_s.get() - time.thread_time()
    if left_s <= 0:
        raise TimeoutError
    return left_s


def _timed(check: Check) -> Check:
    """The check of one keyword, as long as there is time. Each keyword is looked at: none of them takes long alone, but
    for those in `NOT_CHECKED`."""

    def timed(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
        _left_s()
        try:
            for fault in check(validator, value, instance, schema) or ():
                # Each tells the whole value, and `anyOf` keeps all of them.
                fault.message = fault.message[:MAX_FAULT_CHARS]
                fault.args = ()
                yield fault
        except (ArithmeticError, ValueError):  # multiples of what is too large, or no number
            yield ValidationError(f"{str(instance)[:200]} cannot be counted with")

    return timed


def _pattern(validator: Any, pattern: str, instance: Any, schema: Any) -> Iterator[ValidationError]:
    try:
        if isinstance(instance, str) and not regex.search(pattern, instance, timeout=_left_s()):
            yield ValidationError(f"{instance[:200]!r} does not match {pattern[:200]!r}")
    except regex.error:  # of a foreign schema; whose it is will judge
        return


def _unique(validator: Any, is_unique: bool, instance: Any, schema: Any) -> Iterator[ValidationError]:
    """Each item once; the library compares every pair of them."""
    if is_unique and isinstance(instance, list):
        items = cast(list[object], instance)
        if len({json.dumps(item, sort_keys=True) for item in items}) < len(items):
            yield ValidationError("an item stands there twice")


def _unchecked(validator: Any, value: Any, instance: Any, schema: Any) -> Iterable[ValidationError]:
    return ()


_LIBRARYS = cast(Mapping[str, Check], jsonschema.Draft202012Validator.VALIDATORS)
_OURS: Mapping[str, Check] = {"pattern": _pattern, "uniqueItems": _unique, **dict.fromkeys(NOT_CHECKED, _unchecked)}
_Validator: Any = cast(Any, extend)(
    jsonschema.Draft202012Validator,
    {name: _timed(check) for name, check in {**_LIBRARYS, **_OURS}.items()},
)
