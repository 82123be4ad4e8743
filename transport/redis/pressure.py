"""Back-pressure: no new work for a server that is short of memory, so that what was accepted can end."""

from __future__ import annotations

import asyncio
import time

from ..errors import QueueFull
from ..limits import Limits
from .client import Client

# A look costs the server about 50 µs. What is submitted between two of them is counted by what a task of 600 bytes was
# measured to take until it has ended: its record, its places in line, three events and a result.
LOOK_EVERY_S = 1.0
TASK_BYTES = 4_096
RETRY_AFTER_S = 5.0


class Pressure:
    """Of one server; its memory is looked at when something is submitted, at most once a second."""

    def __init__(self, client: Client, limits: Limits) -> None:
        self._client = client
        self._share = limits.memory_share
        self._looked_at = -LOOK_EVERY_S
        self._used_bytes = self._limit_bytes = 0
        self._looking = asyncio.Lock()  # of forty that submit at once one looks, and the others wait for it

    async def check(self, tasks: int) -> None:
        """`QueueFull` when that many tasks more would take the server beyond `Limits.memory_share` of its `maxmemory`;
        without a `maxmemory` never."""
        async with self._looking:
            now_s = time.monotonic()
            if now_s - self._looked_at >= LOOK_EVERY_S:
                await self._look()
                self._looked_at = now_s
        used_bytes = self._used_bytes + tasks * TASK_BYTES
        if self._limit_bytes and used_bytes >= self._share * self._limit_bytes:
            raise QueueFull(
                f"the Redis server's memory would be {used_bytes / self._limit_bytes:.0%} full with this, and nothing "
                f"new is accepted beyond {self._share:.0%}",
                retry_after_s=RETRY_AFTER_S,
                hint="come again later, shorten the retention, or raise its maxmemory",
            )
        self._used_bytes = used_bytes

    async def _look(self) -> None:
        text: bytes = await self._client.call("INFO", "memory")
        info = dict(line.split(":", 1) for line in text.decode().splitlines() if ":" in line)
        self._used_bytes, self._limit_bytes = int(info["used_memory"]), int(info.get("maxmemory", 0))
