"""Back-pressure: no more work than a server has memory for, so that what was accepted can end.

Admission counts what is used now, and what all live tasks will add until they have ended. When that is too much, the
events of the traces that ended longest ago go first; records and results stay. Only then are submissions refused.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from ..errors import QueueFull
from ..limits import Limits
from .cell import Cell

# A look costs the server about 50 µs.
LOOK_EVERY_S = 1.0
RETRY_AFTER_S = 5.0
# What a task takes when it has ended, before any was measured: a little more than with 30 events of 300 bytes.
# It counts as one task beside those that were measured.
ENDED_BYTES = 24 * 1024
# What of it is there already while the task stands in line: the least, that of a task in a trace of many.
QUEUED_BYTES = 2_200
# One script takes a few milliseconds of the server's time, a submission some tens. (A script that meets a full server
# lets fewer traces go: `TRIMMED_AT_ONCE` in lib.lua.)
TRACES_PER_TRIM = 100
TRIMS_PER_SUBMISSION = 20
MOST = 2.0**53  # of anything that is counted here


class Pressure:
    """Of one server; its memory is looked at when something is submitted, at most once a second."""

    def __init__(self, cells: Sequence[Cell], limits: Limits) -> None:
        """`cells`: all that this server is known to have."""
        self._cells = cells
        self._client = cells[0].client
        self._share = limits.memory_share
        self._looked_at = -LOOK_EVERY_S
        self._used_bytes = self._limit_bytes = self._coming_bytes = 0
        self._task_bytes = ENDED_BYTES
        self._looking = asyncio.Lock()  # of forty that submit at once one looks, and the others wait for it

    async def check(self, tasks: int, size_bytes: int) -> None:
        """`QueueFull` when that many tasks more, or so many bytes of requests or words, would take the server beyond
        `Limits.memory_share` of its `maxmemory` by the time all have ended; without a `maxmemory` never."""
        async with self._looking:
            if time.monotonic() - self._looked_at >= LOOK_EVERY_S:
                await self._look()
            await self._make_room(tasks, size_bytes)
        more_bytes = self._more_bytes(tasks, size_bytes)
        if self._is_too_much(more_bytes):
            expected = self._expected_bytes(more_bytes) / self._limit_bytes
            raise QueueFull(
                f"the Redis server's memory would be {expected:.0%} full when all accepted "
                f"tasks have ended, and nothing new is accepted beyond {self._share:.0%}",
                retry_after_s=RETRY_AFTER_S,
                hint="come again later, shorten the retention, or raise its maxmemory",
            )
        self._coming_bytes += more_bytes

    async def relieve(self) -> None:
        """Make room where there is too little, although nobody submits."""
        async with self._looking:
            await self._look()
            while self._is_too_much(0) and await make_room(self._cells, TRACES_PER_TRIM):
                await self._look()

    async def used(self) -> float:
        """The share of its `maxmemory` that is in use; without a `maxmemory` 0."""
        async with self._looking:
            await self._look()
        return self._used_bytes / self._limit_bytes if self._limit_bytes else 0.0

    def _more_bytes(self, tasks: int, size_bytes: int) -> int:
        """A usual request is counted in what was measured of tasks; a large one may be many times that."""
        return tasks * self._task_bytes + max(0, size_bytes - tasks * QUEUED_BYTES)

    def _expected_bytes(self, more_bytes: int) -> int:
        return self._used_bytes + self._coming_bytes + more_bytes

    def _is_too_much(self, more_bytes: int) -> bool:
        return self._limit_bytes > 0 and self._expected_bytes(more_bytes) >= self._share * self._limit_bytes

    async def _make_room(self, tasks: int, size_bytes: int) -> None:
        for _ in range(TRIMS_PER_SUBMISSION):
            if not self._is_too_much(self._more_bytes(tasks, size_bytes)) or not await make_room(
                self._cells, TRACES_PER_TRIM
            ):
                return
            await self._look()

    async def _look(self) -> None:
        live = [("ZCOUNT", cell.keys.name("deadlines"), "-inf", "+inf") for cell in self._cells]
        ended = [("HMGET", cell.keys.name("usage"), "bytes", "tasks") for cell in self._cells]
        text, *found = await self._client.read_many([("INFO", "memory"), *live, *ended])
        info = dict(line.split(":", 1) for line in text.decode().splitlines() if ":" in line)
        measured_bytes, measured = ENDED_BYTES, 1.0
        for size_bytes, tasks in found[len(live) :]:
            measured_bytes, measured = measured_bytes + _figure(size_bytes), measured + _figure(tasks)
        self._task_bytes = int(measured_bytes / measured)
        self._coming_bytes = sum(found[: len(live)]) * max(0, self._task_bytes - QUEUED_BYTES)
        self._used_bytes, self._limit_bytes = int(info.get("used_memory") or 0), int(info.get("maxmemory") or 0)
        self._looked_at = time.monotonic()


def _figure(text: bytes | None) -> float:
    """0 for what somebody has spoilt."""
    try:
        found = float(text or 0)
    except ValueError:
        return 0.0
    return found if 0 <= found < MOST else 0.0


async def make_room(cells: Sequence[Cell], traces: int) -> int:
    """Let go of the events of traces that ended longest ago, up to so many in each cell; how many traces there were."""
    return sum([await cell.run("trim", repeatable=True, traces=traces) for cell in cells])
