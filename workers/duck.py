"""Reading what is not ours: messages, maps and objects of other programs. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

MARKS = (b",", b"[", b"{")


class Splitter:
    """Bytes as they come, as lines. Each byte is looked at once, however long its line gets; `rest` has no end yet."""

    def __init__(self) -> None:
        self.rest = bytearray()

    def take(self, data: bytes) -> list[bytes]:
        first, *more = data.split(b"\n")
        self.rest += first
        lines: list[bytes] = []
        for part in more:
            lines.append(bytes(self.rest))
            self.rest = bytearray(part)
        return lines


def is_light(message: bytes, max_values: int) -> bool:
    """Has the JSON no more values? Told before anything is made of it, which may take a hundred times its length, and
    seconds: each value but the first stands behind one of these marks, outside of strings."""
    if sum(map(message.count, MARKS)) <= max_values:
        return True
    bare = message.replace(rb"\\", b"").replace(rb"\"", b"")
    if bare.count(b'"') > 4 * max_values:  # a name and a value, with two each
        return False
    return sum(map(b"".join(bare.split(b'"')[::2]).count, MARKS)) <= max_values


def first(of: object, *names: str) -> Any:
    """What the first of these names holds that holds anything; None when none does.

    >>> first({"a": None, "b": 2}, "a", "b"), first(3 + 4j, "size", "imag"), first(None, "a")
    (2, 4.0, None)
    """
    return next((value for name in names if (value := _held(of, name)) is not None), None)


def _held(of: object, name: str) -> Any:
    return cast(Mapping[str, Any], of).get(name) if isinstance(of, Mapping) else getattr(of, name, None)
