"""Where arq cannot go (Sentinel, a cluster) each orchestrator runs the jobs by its own timer."""

from __future__ import annotations

import asyncio

import pytest

from orchestrator.jobs import JOBS, run_jobs
from orchestrator.settings import Settings
from transport.blobs import MemoryBlobs
from transport.memory import MemoryTransport


class WatchedBlobs(MemoryBlobs):
    def __init__(self) -> None:
        super().__init__()
        self.collected = asyncio.Event()

    async def collect(self, *, now_ms: int) -> int:
        self.collected.set()
        return await super().collect(now_ms=now_ms)


class Unlucky(WatchedBlobs):
    async def collect(self, *, now_ms: int) -> int:
        raise OSError("the bucket is away")


@pytest.fixture(params=["redis+sentinel://127.0.0.1:1/fleet/0", "rediss+cluster://127.0.0.1:1"])
def settings(request, tmp_path) -> Settings:
    return Settings(redis_url=request.param, state_dir=tmp_path)


async def test_a_job_for_the_start_runs_at_the_start(settings):
    transport = MemoryTransport()
    transport.blobs = blobs = WatchedBlobs()
    jobs = asyncio.create_task(run_jobs(transport, settings))
    try:
        async with asyncio.timeout(60):
            await blobs.collected.wait()
    finally:
        jobs.cancel()
        await asyncio.wait([jobs])

    assert jobs.cancelled()


async def test_what_goes_wrong_is_told_to_whoever_keeps_the_jobs_up(settings):
    transport = MemoryTransport()
    transport.blobs = Unlucky()

    with pytest.raises(ExceptionGroup, match="TaskGroup") as failure:
        await run_jobs(transport, settings)

    assert failure.group_contains(OSError, match="the bucket is away")


def test_a_sweep_comes_each_minute_and_a_collection_each_hour():
    assert {name: job.period_s for name, job in JOBS.items()} == {"sweep": 60, "collect": 3600}
