"""Least recently used goes first: what is kept between reads, so that who asks again does not begin anew."""

from __future__ import annotations

from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class LruCache(Generic[K, V]):
    """At most so many values. Both `get` and `put` use one.

    >>> cache = LruCache[str, int](2)
    >>> [cache.put("a", 1), cache.put("b", 2), cache.get("a"), cache.put("c", 3), cache.get("b")]
    [1, 2, 1, 3, None]
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._values: dict[K, V] = {}  # the one used last is the last

    def get(self, key: K) -> V | None:
        return self.put(key, self._values[key]) if key in self._values else None

    def put(self, key: K, value: V) -> V:
        self.drop(key)
        self._values[key] = value
        if len(self._values) > self._size:
            self.drop(next(iter(self._values)))
        return value

    def drop(self, key: K) -> None:
        self._values.pop(key, None)
