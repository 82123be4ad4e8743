"""The store of blobs, as everybody sees it: content under its own name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class Blobs(Protocol):
    async def put(self, content: bytes) -> str:
        """Store under the content's own name (`sha256:…`); storing the same twice is one blob, and renews it."""
        ...

    async def put_all(self, contents: Sequence[bytes]) -> list[str]:
        """As `put`, of several, in as few steps as the store can; all are stored when it returns."""
        ...

    async def get(self, ref: str) -> bytes:
        """The content, checked against its name; `NotFound` when it is gone. Renews it."""
        ...

    async def collect(self, *, now_ms: int) -> int:
        """Remove what nobody has put or read for a blob's life (see `blobs/life.py`); how many blobs went."""
        ...
