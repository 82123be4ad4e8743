"""Blobs as Redis strings, outside the cells' hash tags."""

from __future__ import annotations

from envelope.ids import blob_ref

from ..blobs import check_size, checked
from ..errors import NotFound
from .client import Client


class RedisBlobs:
    """Kept for the retention time after they were last stored."""

    def __init__(self, client: Client, fleet: str, retention_ms: int) -> None:
        self._client = client
        self._prefix = f"muster:{fleet}:blob:"
        self._retention_ms = retention_ms

    async def put(self, content: bytes) -> str:
        check_size(content)
        ref = blob_ref(content)
        await self._client.call("SET", self._prefix + ref, content, "PX", self._retention_ms)
        return ref

    async def get(self, ref: str) -> bytes:
        content = await self._client.call("GET", self._prefix + ref)
        if content is None:
            raise NotFound(f"there is no blob {ref}")
        return checked(ref, content)
