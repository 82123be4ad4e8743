"""The orchestrator as a process of its own: killed, drained, measured, sweeping."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
import urllib.request

import pytest

from envelope.lifecycle import State
from envelope.messages import TaskRequest
from orchestrator.batch.report import BatchReport
from orchestrator.jobs import connect_jobs, job_name, run_jobs, sweep
from orchestrator.submit import DRIVERS, task_request

pytestmark = pytest.mark.redis

FILES = {"src/a.py": "old a\n", "src/b.py": "old b\n", "tests/t.py": "assert\nassert\n"}


def metrics_of(port: int) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
        return answer.read().decode()


async def metrics_with(port: int, name: str) -> str:
    """The process counts a task just after its result can be read."""
    async with asyncio.timeout(60):
        while name not in (text := await asyncio.to_thread(metrics_of, port)):
            pass
    return text


async def card_of(stage):
    """The service announces itself beside its start; every read is a round trip, so this yields to it."""
    async with asyncio.timeout(60):
        while not (cards := [card for card in await stage.muster.workers() if card.pool == DRIVERS]):
            await stage.transport.now_ms()
    return cards[0]


@pytest.mark.chaos
async def test_an_orchestrator_killed_in_the_middle_is_replaced_and_nothing_is_done_twice(served_stage):
    stage = served_stage
    go_on = asyncio.Event()
    both_started = asyncio.Event()

    async def hold(_task: TaskRequest) -> None:
        if len(stage.builders.shards_started()) == 2:
            both_started.set()
        await go_on.wait()

    stage.builders.before_start = hold
    async with stage.workers():
        async with stage.process() as process:
            request = stage.batch_request(await stage.repository(FILES))
            [handle] = await stage.muster.submit_many([request])
            await both_started.wait()
            process.send_signal(signal.SIGKILL)
            await process.wait()
        go_on.set()
        async with stage.process():
            [result] = await stage.muster.gather([handle])

    report = BatchReport.model_validate(result.output.structured)
    assert (result.status, result.attempt) == (State.COMPLETED, 2)
    assert [shard.outcome for shard in report.repositories[0].shards] == ["applied", "applied"]
    assert len(stage.builders.started) == 2 + 2


async def test_a_drained_orchestrator_gives_its_batch_back_and_ends_well(served_stage):
    stage = served_stage
    started = asyncio.Event()

    async def hold(_task: TaskRequest) -> None:
        started.set()
        await asyncio.Event().wait()

    stage.builders.before_start = hold
    async with stage.workers(), stage.process() as process:
        request = stage.batch_request(await stage.repository(FILES))
        [handle] = await stage.muster.submit_many([request])
        await started.wait()
        process.send_signal(signal.SIGTERM)

        assert await process.wait() == 0
        assert (await stage.muster.record(handle.task_id)).state is State.PENDING


async def test_the_process_announces_where_its_metrics_are(served_stage, debian_program):
    stage = served_stage
    async with stage.workers(), stage.process():
        request = stage.batch_request(await stage.repository(FILES))
        [handle] = await stage.muster.submit_many([request])
        await stage.muster.gather([handle])
        card = await card_of(stage)
        ended = 'muster_tasks_finished_total{outcome="completed",pool="orchestrator",reason="none"} 1.0'
        text = await metrics_with(card.metrics_port, ended)

    assert {agent.name for agent in card.agents} == {"run", "batch", "fanout", "eval"}
    assert 'muster_tasks_submitted_total{pool="build"} 4.0' in text
    assert 'muster_tasks_running{pool="orchestrator"} 0.0' in text
    assert "muster_leases_reaped_total 0.0" in text
    assert 'muster_merge_total{outcome="applied",stage="patch"} 2.0' in text
    assert 'muster_verify_total{outcome="verified"} 1.0' in text
    assert re.search(r'muster_queue_ready\{pool="build"\} \d', text)
    assert 'muster_pool_workers{pool="orchestrator"} 1.0' in text
    assert "muster_merge_seconds_count 1.0" in text and "muster_gate_seconds_count 2.0" in text
    assert re.search(r'muster_redis_command_seconds_count\{command="claim"\} [1-9]', text)
    linted = subprocess.run([debian_program("promtool"), "check", "metrics"], input=text.encode(), capture_output=True)
    assert (linted.returncode, linted.stdout + linted.stderr) == (0, b"")


@pytest.mark.parametrize(("folder", "code"), [("", 6), ("/proc/nowhere", 2)])
async def test_a_service_without_redis_or_a_folder_says_so_in_one_sentence(served_stage, tmp_path, folder, code):
    told = {"MUSTER_REDIS_URL": f"unix://{tmp_path}/none.sock", "MUSTER_STATE_DIR": folder or str(tmp_path)}
    environment = {**os.environ, **told}
    command = (sys.executable, "-m", "orchestrator.service")
    process = await asyncio.create_subprocess_exec(*command, env=environment, stderr=asyncio.subprocess.PIPE)

    _, stderr = await process.communicate()

    assert process.returncode == code
    assert re.fullmatch(rb"error: [^\n]+\nhint: [^\n]+\n", stderr), stderr


@pytest.fixture
async def orphan(served_stage):
    """A shard whose batch was cancelled while no orchestrator held it, so that nobody told the shard."""
    fields = {"pool": "build", "deadline_ms": 60_000, "auth_scope": ()}
    batch = task_request(agent="batch", **fields | {"pool": DRIVERS})
    shard = task_request(agent="recipe", **fields, batch_id=batch.task_id)
    await served_stage.muster.submit_many([batch, shard, task_request(agent="recipe", **fields)])
    await served_stage.muster.cancel(batch.task_id)
    return shard


async def test_a_shard_without_its_batch_is_swept_up_and_no_other_task(served_stage, orphan):
    await served_stage.crowd()  # younger than the shard
    assert await sweep(served_stage.transport) == 1
    assert await sweep(served_stage.transport) == 0

    assert (await served_stage.muster.record(orphan.task_id)).state is State.CANCELLED


async def test_a_shard_of_a_live_batch_is_left_alone(served_stage):
    batch = task_request(agent="batch", pool=DRIVERS, deadline_ms=60_000, auth_scope=())
    shard = task_request(agent="recipe", pool="build", deadline_ms=60_000, auth_scope=(), batch_id=batch.task_id)
    await served_stage.muster.submit_many([batch, shard])

    assert await sweep(served_stage.transport) == 0


async def test_arq_runs_the_sweep_from_the_fleets_own_queue(served_stage, orphan):
    stage, settings = served_stage, served_stage.muster.settings
    queue = await connect_jobs(settings)
    await queue.enqueue_job(job_name(settings, "sweep"))
    jobs = asyncio.create_task(run_jobs(stage.transport, settings))
    try:
        async with asyncio.timeout(20):
            [shard] = [result async for result in stage.muster.results([orphan.task_id])]
    finally:
        jobs.cancel()
        await asyncio.wait([jobs])
        await queue.aclose()

    assert (shard.status, shard.errors[0].message) == (State.CANCELLED, "its batch has ended")
