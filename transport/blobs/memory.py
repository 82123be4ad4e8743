"""Blobs inside one process."""

from __future__ import annotations

from collections.abc import Sequence

from envelope.ids import blob_ref

from ..limits import Limits
from .content import check_size, checked, missing
from .life import Clock, life_ms, wall_clock_ms


class MemoryBlobs:
    """The model for the others: here a blob goes exactly at the end of its life."""

    def __init__(self, *, retention_ms: int = Limits().retention_ms, clock: Clock = wall_clock_ms) -> None:
        self._life_ms = life_ms(retention_ms)
        self._clock = clock
        self._contents: dict[str, bytes] = {}
        self._used_at_ms: dict[str, int] = {}

    async def put(self, content: bytes) -> str:
        check_size(content)
        ref = blob_ref(content)
        self._contents[ref] = content
        self._used_at_ms[ref] = self._clock()
        return ref

    async def put_all(self, contents: Sequence[bytes]) -> list[str]:
        return [await self.put(content) for content in contents]

    async def get(self, ref: str) -> bytes:
        if ref not in self._contents:
            raise missing(ref)
        self._used_at_ms[ref] = self._clock()
        return checked(ref, self._contents[ref])

    async def collect(self, *, now_ms: int) -> int:
        over = [ref for ref, used_at_ms in self._used_at_ms.items() if used_at_ms + self._life_ms <= now_ms]
        for ref in over:
            del self._contents[ref], self._used_at_ms[ref]
        return len(over)
