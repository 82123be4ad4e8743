"""Two stores as one, by size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..errors import NotFound
from .base import Blobs
from .content import SMALL_BYTES


@dataclass(frozen=True, slots=True)
class TieredBlobs:
    """Small ones where every machine of the fleet reaches them fast, large ones where they do not cost memory."""

    small: Blobs
    large: Blobs
    limit_bytes: int = SMALL_BYTES

    async def put(self, content: bytes) -> str:
        return await (self.small if len(content) <= self.limit_bytes else self.large).put(content)

    async def put_all(self, contents: Sequence[bytes]) -> list[str]:
        if all(len(content) <= self.limit_bytes for content in contents):
            return await self.small.put_all(contents)
        return [await self.put(content) for content in contents]

    async def get(self, ref: str) -> bytes:
        try:
            return await self.small.get(ref)
        except NotFound:
            return await self.large.get(ref)

    async def collect(self, *, now_ms: int) -> int:
        return await self.small.collect(now_ms=now_ms) + await self.large.collect(now_ms=now_ms)
