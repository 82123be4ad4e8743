"""Answers that are too large to be looked at twice."""

from __future__ import annotations

from typing import Any

from fastapi import Response
from pydantic import TypeAdapter

_ANY = TypeAdapter[Any](Any)


def told_at_once(value: Any) -> Response:
    """Values that are JSON already, as they are: the framework's look at each field of 1,000 tasks takes 0.1 s."""
    return Response(_ANY.dump_json(value), media_type="application/json")
