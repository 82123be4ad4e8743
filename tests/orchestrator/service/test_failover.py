"""A server that fails over may forget what it has accepted: the driver that waits for it submits it again."""

from __future__ import annotations

import asyncio

import pytest
from redis.asyncio import Redis

from envelope.lifecycle import State
from envelope.messages import TaskRequest

pytestmark = [pytest.mark.redis, pytest.mark.chaos]

FILES = {"src/a.py": "old a\n", "src/b.py": "old b\n", "tests/t.py": "assert\nassert\n"}


@pytest.fixture
def held(served_stage):
    """Builders that wait before each task; set `release` to let them go on."""
    started, release = asyncio.Event(), asyncio.Event()

    async def hold(_task: TaskRequest) -> None:
        started.set()
        await release.wait()

    served_stage.builders.before_start = hold
    return started, release


async def test_a_driver_submits_again_what_was_forgotten_below_it(served_stage, held):
    """A failover that lost the last moments alone: the shards, but not their batch."""
    stage, (started, release) = served_stage, held
    settings = stage.muster.settings
    async with stage.orchestrator(), stage.workers():
        handle = await stage.muster.submit_repeatable(stage.batch_request(await stage.repository(FILES)))
        await started.wait()
        shards = [root for root in await stage.muster.tasks() if root.batch_id == handle.task_id]
        async with Redis.from_url(settings.redis_url) as server:
            for shard in shards:
                names = [name async for name in server.scan_iter(match=f"*{shard.task_id}*")]
                names += [name async for name in server.scan_iter(match=f"*{shard.trace_id}*")]
                await server.delete(*names)
        release.set()
        async with asyncio.timeout(60):
            [result] = await stage.muster.gather([handle])

    assert (result.status, result.attempt) == (State.COMPLETED, 1)
    children = await stage.muster.children(await stage.muster.record(handle.task_id))
    assert {shard.task_id for shard in shards} < {child.task_id for child in children}
