"""What somebody sent and no field takes, however deep: messages between programs of ours ignore it, people mean it.
And what is longer than anybody means: each wrong element of a list would be an error of its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast, get_args

from pydantic import BaseModel

MAX_IN_LIST = 1000


def too_long_in(model: type[BaseModel], said: Any) -> Iterator[str]:
    """The places of lists with more than MAX_IN_LIST elements; what takes any value is looked at by who reads that.

    >>> from envelope.messages import Workspace
    >>> list(too_long_in(Workspace, {"base": "x", "setup": ["true"] * 1001}))
    ['setup']
    """
    if not isinstance(said, Mapping):
        return
    for key, value in cast("Mapping[str, Any]", said).items():
        field = model.model_fields.get(key)
        if field is None or _takes_anything(field.annotation):
            continue
        if isinstance(value, list) and len(cast("list[Any]", value)) > MAX_IN_LIST:
            yield key
            continue
        for inner in _models_in(field.annotation):
            for each in cast("list[Any]", value) if isinstance(value, list) else [value]:
                yield from (f"{key}.{place}" for place in too_long_in(inner, each))


def unknown_in(model: type[BaseModel], said: Any) -> Iterator[str]:
    """The places of keys that are none of the model's fields.

    >>> from envelope.plan import Plan
    >>> list(unknown_in(Plan, {"goal": "x", "steps": [{"step_id": "a"}, {"titel": "b"}]}))
    ['steps.1.titel']
    """
    if not isinstance(said, Mapping):
        return
    for key, value in cast("Mapping[str, Any]", said).items():
        field = model.model_fields.get(key)
        if field is None:
            yield key
            continue
        for inner in _models_in(field.annotation):
            yield from (f"{key}.{place}" for place in _unknown_within(inner, value))


def _unknown_within(model: type[BaseModel], value: Any) -> Iterator[str]:
    if isinstance(value, Sequence) and not isinstance(value, str):
        for number, each in enumerate(cast("Sequence[Any]", value)):
            yield from (f"{number}.{place}" for place in unknown_in(model, each))
    else:
        yield from unknown_in(model, value)


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from _models_in(part)


def _takes_anything(annotation: Any) -> bool:
    return annotation is Any or any(map(_takes_anything, get_args(annotation)))
