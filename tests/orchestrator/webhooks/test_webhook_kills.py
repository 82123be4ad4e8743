"""An orchestrator that is killed while it tells somebody outside: another one goes on, under the same ids."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from contextlib import asynccontextmanager

import pytest

from envelope.lifecycle import State
from envelope.messages import TaskResult
from orchestrator.submit import task_request

pytestmark = [pytest.mark.redis, pytest.mark.chaos]


@asynccontextmanager
async def orchestrator(stage, receiver):
    """A process, killed at the end and not asked."""
    settings = stage.muster.settings
    told = {
        "MUSTER_REDIS_URL": settings.redis_url,
        "MUSTER_FLEET": settings.fleet,
        "MUSTER_STATE_DIR": str(settings.state_dir),
        "MUSTER_WEBHOOKS": json.dumps({"chat": receiver.hook()}),
        "MUSTER_WEBHOOK_TIMEOUT_S": "1",  # another may try half a second later
    }
    command = (sys.executable, "-m", "orchestrator.service")
    process = await asyncio.create_subprocess_exec(*command, env={**os.environ, **told})
    try:
        yield
    finally:
        process.kill()
        await process.wait()


async def ended(stage) -> str:
    request = task_request(agent="build", pool="build", auth_scope=(), deadline_ms=600_000)
    await stage.transport.submit([request])
    [claim] = await stage.transport.claim("build", "w", slots=1, wait_s=5)
    said = {"trace_id": request.trace_id, "task_id": request.task_id, "attempt": 1}
    await stage.transport.finish(claim.lease, TaskResult(**said, status=State.COMPLETED))
    return request.task_id


async def test_what_was_being_told_and_what_nobody_was_there_to_tell_are_told_by_the_next(served_stage, receiver):
    [notices] = served_stage.transport.notices
    await notices.read(wait_s=0.001)  # an orchestrator was there before
    receiver.hold = asyncio.Event()
    first = await ended(served_stage)
    async with orchestrator(served_stage, receiver):
        await receiver.first(1)  # it hears no answer any more
    receiver.hold.set()
    second = await ended(served_stage)
    async with orchestrator(served_stage, receiver):
        got = await receiver.until(lambda got: {one.said["data"]["task_id"] for one in got[1:]} >= {first, second})
        async with asyncio.timeout(60):
            while await notices.waiting(1):
                await served_stage.transport.now_ms()

    ids: dict[str, set[str]] = {}
    for one in got:
        ids.setdefault(one.said["data"]["task_id"], set()).add(one.id)
    assert {task: len(each) for task, each in ids.items()} == {first: 1, second: 1}
    assert await notices.given_up(1) == []
