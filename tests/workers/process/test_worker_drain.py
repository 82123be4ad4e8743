"""A worker that is told to stop: short work ends, the rest goes back, and nobody counts that against a task."""

from __future__ import annotations

import asyncio
import json
import signal

import pytest

from envelope.lifecycle import State
from envelope.messages import TaskInput

pytestmark = [pytest.mark.redis, pytest.mark.docker]


async def exit_code(worker: asyncio.subprocess.Process) -> int | None:
    async with asyncio.timeout(45):
        _, stderr = await worker.communicate()
    assert all(json.loads(line)["level"] in ("info", "warning") for line in stderr.decode().splitlines())
    return worker.returncode


async def test_short_work_ends_within_the_grace_and_nothing_new_is_started(start_worker, fleet):
    worker = await start_worker(MUSTER_SLOTS="1", MUSTER_DRAIN_GRACE_S="30")
    short = await fleet.submit_command("sleep 2")
    late = await fleet.submit(input=TaskInput(params={"commands": ["true"]}))
    worker.send_signal(signal.SIGTERM)

    assert await exit_code(worker) == 0
    result = await fleet.ended(short.task_id)
    assert (result.status, result.attempt) == (State.COMPLETED, 1)
    assert (await fleet.transport.record(late.task_id)).attempt == 0


SLEEPS = """
rules:
  - {when: {turn: 1}, reply: {tool_calls: [{name: bash, arguments: {command: "true"}}]}}
  - {when: {turn: 2}, reply: {tool_calls: [{name: bash, arguments: {command: sleep 600}}]}}
"""


async def test_long_work_is_given_back_with_its_checkpoint(start_worker, fleet, serve, containers_of_task):
    model = {"MUSTER_MODEL": "openai/scripted", "MUSTER_MODEL_BASE_URL": (await serve(SLEEPS)).base_url}
    model |= {"MUSTER_TITLES": "false"}
    worker = await start_worker(MUSTER_DRAIN_GRACE_S="1", MUSTER_MODEL_API_KEY="unused-key", **model)
    request = await fleet.submit(agent="build", input=TaskInput(prompt="sleep"))
    await fleet.until(request, "tool_call", title="sleep 600")
    worker.send_signal(signal.SIGTERM)

    assert await exit_code(worker) == 0
    record = await fleet.transport.record(request.task_id)
    assert (record.state, record.attempt, record.lost_leases, record.retries) == (State.PENDING, 1, 0, 0)
    assert record.checkpoint is not None
    assert containers_of_task(request.task_id) == []
    await fleet.transport.cancel(request.task_id, by="test", reason="done")


async def test_a_second_signal_does_not_wait_for_the_grace(start_worker, fleet, containers_of_task):
    worker = await start_worker(MUSTER_DRAIN_GRACE_S="600")
    request = await fleet.submit_command("sleep 600")
    worker.send_signal(signal.SIGTERM)
    worker.send_signal(signal.SIGINT)

    assert await exit_code(worker) == 0
    record = await fleet.transport.record(request.task_id)
    assert (record.state, record.lost_leases, record.retries) == (State.PENDING, 0, 0)
    assert containers_of_task(request.task_id) == []
    await fleet.transport.cancel(request.task_id, by="test", reason="done")
