"""A batch's driver that is started again has the repositories to do that none before it has concluded."""

from __future__ import annotations

import asyncio
import shutil
from contextlib import asynccontextmanager

import pytest
from redis.asyncio import Redis

from envelope.lifecycle import State
from orchestrator.batch.report import BatchReport
from orchestrator.driver import Driver, DriverContext, open_driver
from orchestrator.metrics import OrchestratorMetrics
from orchestrator.session.fold import Session, apply
from orchestrator.submit import DRIVERS
from transport.consumer import Delivery
from transport.keyring import fresh
from transport.limits import Limits
from transport.memory import MemoryTransport

ONE = {"src/a.py": "old a\n", "t": "assert\n"}
TWO = {"src/b.py": "old b\n", "t": "assert\nassert\n"}


@pytest.fixture
def saved(monkeypatch):
    """Set as soon as a driver has saved something."""
    event, save = asyncio.Event(), Driver.save

    async def told(driver, blob):
        await save(driver, blob)
        event.set()

    monkeypatch.setattr(Driver, "save", told)
    return event


@pytest.fixture
async def pair(any_stage):
    return [await any_stage.repository(files, name=name) for name, files in (("one", ONE), ("two", TWO))]


@asynccontextmanager
async def one_concluded(stage, pair, saved):
    """A driver has concluded the first of two repositories, and is gone; what the second waits for comes within."""
    go_on = asyncio.Event()

    async def hold(task):
        if task.workspace.base == pair[1].base:
            await go_on.wait()

    stage.builders.before_start = hold
    async with stage.workers():
        async with stage.orchestrator():
            [handle] = await stage.muster.submit_many([stage.batch_request(*pair)])
            await saved.wait()
        go_on.set()
        yield handle


async def ended(stage, handle):
    async with stage.orchestrator():
        [result] = await stage.muster.gather([handle])
    return result, BatchReport.model_validate(result.output.structured)


async def test_what_is_concluded_is_not_touched_again(any_stage, pair, saved):
    stage = any_stage
    async with one_concluded(stage, pair, saved) as handle:
        shutil.rmtree(stage.folder / "cache")
        result, report = await ended(stage, handle)

    assert (result.status, result.attempt) == (State.COMPLETED, 2)
    assert [(each.name, each.verified) for each in report.repositories] == [("one", True), ("two", True)]
    assert len(stage.builders.started) == 2 * (1 + 2)  # a shard, the gate before and after
    assert len(list((stage.folder / "cache" / "mirrors").glob("*.git"))) == 1
    assert [each.name for each in result.attachments] == ["one.bundle", "two.bundle", "report.json"]


async def test_it_comes_to_the_same_as_undisturbed_and_whoever_watches_sees_the_same(
    any_stage, pair, saved, batch_text
):
    stage = any_stage
    async with one_concluded(stage, pair, saved) as handle:
        struck, report = await ended(stage, handle)

    calm, undisturbed = await stage.batch(*pair, text=batch_text + '[publish]\nbranch = "another"\n')

    def outcome(report: BatchReport):
        return [(one.name, one.commit, one.patch, one.verified, one.reason, one.counts) for one in report.repositories]

    async def seen(result):
        view = Session.of(result.task_id, result.trace_id)
        async for entry in stage.muster.follow(result.trace_id):
            apply(view, entry)
        task = view.root_task
        return sorted(step.key for step in task.merges), sorted((gate.phase, gate.tests) for gate in task.gates)

    assert outcome(report) == outcome(undisturbed)
    assert await seen(struck) == await seen(calm)


@pytest.mark.redis
async def test_what_was_kept_and_is_gone_is_done_again(redis_stage, conductor_redis, pair_on_redis, saved):
    stage = redis_stage
    async with one_concluded(stage, pair_on_redis, saved) as handle:
        checkpoint = (await stage.muster.record(handle.task_id)).checkpoint
        async with Redis(unix_socket_path=conductor_redis.url.removeprefix("unix://")) as client:
            assert await client.delete(*[key async for key in client.scan_iter(match=f"*:blob:{checkpoint}")]) == 1
        shutil.rmtree(stage.folder / "cache")
        _, report = await ended(stage, handle)

    assert [(each.name, each.verified) for each in report.repositories] == [("one", True), ("two", True)]
    assert len(list((stage.folder / "cache" / "mirrors").glob("*.git"))) == 2
    assert len(stage.builders.started) == 2 * (1 + 2)  # content keys lead to what was done


@pytest.fixture
async def pair_on_redis(redis_stage):
    return [await redis_stage.repository(files, name=name) for name, files in (("one", ONE), ("two", TWO))]


async def test_another_batch_over_the_same_repositories_proves_for_itself(any_stage, pair, batch_text):
    await any_stage.batch(*pair)
    gates = len(any_stage.builders.started)

    _, report = await any_stage.batch(*pair, text=batch_text + '[publish]\nbranch = "another"\n')

    assert [each.verified for each in report.repositories] == [True, True]
    assert len(any_stage.builders.started) - gates == 2  # after each change


async def test_a_driver_that_has_saved_something_gets_on(memory_stage, tmp_path):
    """One that loses its lease is given up at once here, unless it has come to something."""
    transport = MemoryTransport(keyring=fresh(), limits=Limits(lease_ms=50, poison_after=1, way_back=2))
    request = memory_stage.batch_request(await memory_stage.repository(ONE))
    [handle] = await transport.submit([request])
    [claim] = await transport.claim(DRIVERS, "first", slots=1, wait_s=1)
    delivery = Delivery(claim, await transport.request(handle.task_id))
    driver = await open_driver(delivery, DriverContext(transport, tmp_path / "cache", OrchestratorMetrics()))

    await driver.save(await transport.blobs.put(b"what it came to"))

    [again] = await transport.claim(DRIVERS, "second", slots=1, wait_s=5)
    assert (again.lease.attempt, again.lost_leases) == (2, 1)
    assert await transport.blobs.get(again.checkpoint) == b"what it came to"
