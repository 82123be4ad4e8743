"""Reading values that are not ours: maps and objects of other programs. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast


def first(of: object, *names: str) -> Any:
    """What the first of these names holds that holds anything; None when none does.

    >>> first({"a": None, "b": 2}, "a", "b"), first(3 + 4j, "size", "imag"), first(None, "a")
    (2, 4.0, None)
    """
    return next((value for name in names if (value := _held(of, name)) is not None), None)


def _held(of: object, name: str) -> Any:
    return cast(Mapping[str, Any], of).get(name) if isinstance(of, Mapping) else getattr(of, name, None)
