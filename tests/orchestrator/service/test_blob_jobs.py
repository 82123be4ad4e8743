"""Blobs whose life is over, and the orchestrator's job that removes them."""

from __future__ import annotations

import asyncio
import time

import pytest

from orchestrator.jobs import collect, run_jobs
from transport.blobs import DirectoryBlobs
from transport.memory import MemoryTransport

YEAR_MS = 365 * 24 * 3600 * 1000


def now_ms() -> int:
    return time.time_ns() // 1_000_000


@pytest.fixture
async def blobs(tmp_path):
    """A store with a blob of last year, and one of today."""
    await DirectoryBlobs(tmp_path / "blobs", clock=lambda: now_ms() - YEAR_MS).put(b"old")
    store = WatchedBlobs(tmp_path / "blobs")
    await store.put(b"young")
    return store


class WatchedBlobs(DirectoryBlobs):
    def __init__(self, root) -> None:
        super().__init__(root)
        self.collected = asyncio.Event()

    async def collect(self, *, now_ms: int) -> int:
        gone = await super().collect(now_ms=now_ms)
        self.collected.set()
        return gone


async def files_of(blobs: DirectoryBlobs) -> list[bytes]:
    return [path.read_bytes() for path in blobs.root.rglob("*") if path.is_file()]


async def test_what_nobody_used_for_a_year_is_collected(blobs):
    transport = MemoryTransport()
    transport.blobs = blobs

    assert await collect(transport) == 1
    assert await files_of(blobs) == [b"young"]


@pytest.mark.parametrize("wrong_ms", [-2 * YEAR_MS, 2 * YEAR_MS])
async def test_a_store_is_not_emptied_by_one_wrong_clock(blobs, wrong_ms):
    transport = MemoryTransport(clock=lambda: now_ms() + wrong_ms)
    transport.blobs = blobs
    await collect(transport)

    assert b"young" in await files_of(blobs)


@pytest.mark.redis
async def test_arq_collects_as_soon_as_an_orchestrator_starts(served_stage, blobs):
    served_stage.transport.blobs = blobs
    jobs = asyncio.create_task(run_jobs(served_stage.transport, served_stage.muster.settings))
    try:
        async with asyncio.timeout(20):
            await blobs.collected.wait()
    finally:
        jobs.cancel()
        await asyncio.wait([jobs])

    assert await files_of(blobs) == [b"young"]
