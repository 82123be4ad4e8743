"""Promises of every transport about retention that is shorter than a task."""

from __future__ import annotations

import asyncio
import time

import pytest

from envelope.ids import new_task_id, new_trace_id
from envelope.lifecycle import State
from transport.base import Wait
from transport.errors import NotFound
from transport.limits import Limits

RETENTION_MS = 300
CELLS = 1  # a key is compared with another trace's, which may live in another cell


@pytest.fixture
async def forgetful_fleet(make_fleet):
    return await make_fleet(Limits(retention_ms=RETENTION_MS))


async def until_forgotten(fleet, task_id: str) -> None:
    """Until the record of an ended task is gone. A fleet in memory keeps all: there the time has passed at least."""
    until = time.monotonic() + 4 * RETENTION_MS / 1000
    while time.monotonic() < until:
        try:
            await fleet.transport.record(task_id)
        except NotFound:
            return
        await asyncio.sleep(0.02)
    assert not fleet.url, "the record of an ended task is kept beyond its retention"


async def test_a_trace_keeps_its_cap_and_its_events_as_long_as_one_of_its_tasks_lives(forgetful_fleet):
    fleet = forgetful_fleet
    trace_id = new_trace_id()
    first = await fleet.submit(trace_id=trace_id, budget={"max_cost_microusd": 100})
    await fleet.submit(trace_id=trace_id)
    ending, living = await fleet.transport.claim("explore", "w1", slots=2, wait_s=5)
    await fleet.finish(ending)
    await until_forgotten(fleet, first.task_id)

    assert await fleet.transport.reserve(living.lease, 1000) is None
    await fleet.finish(living)

    told = [entry.message.task_id async for entry in fleet.transport.follow(trace_id, wait=False)]
    assert first.task_id in told
    assert living.lease.task_id in told


async def test_a_trace_that_goes_on_after_all_had_ended_is_kept_anew(forgetful_fleet):
    fleet = forgetful_fleet
    first = await fleet.submit(budget={"max_cost_microusd": 100})
    await fleet.finish(await fleet.claim_one())
    await fleet.submit(trace_id=first.trace_id)
    living = await fleet.claim_one()
    await until_forgotten(fleet, first.task_id)

    assert (await fleet.transport.ledger(first.trace_id)).cap_microusd == 100
    await fleet.finish(living)


async def test_a_parent_finds_the_result_of_a_child_that_ended_long_ago(forgetful_fleet):
    fleet = forgetful_fleet
    root = await fleet.submit()
    parent = await fleet.claim_one()
    child = fleet.child(root)
    await fleet.transport.submit([child], under=parent.lease)
    await fleet.finish(await fleet.claim_one("w2"), "found")
    other = await fleet.submit()
    await fleet.finish(await fleet.claim_one("w2"))
    await until_forgotten(fleet, other.task_id)

    assert not await fleet.transport.park(parent.lease, Wait(children=frozenset({child.task_id})))
    assert (await fleet.ended(child.task_id)).output.text == "found"
    await fleet.finish(parent)
    await until_forgotten(fleet, child.task_id)  # although its parent had a minute left


async def test_a_driver_finds_what_a_shard_has_spent_as_long_as_it_may_look_for_it(forgetful_fleet):
    """It is run again from its start when its process is killed: what is forgotten would be done, and paid, again."""
    fleet = forgetful_fleet
    batch = await fleet.submit()
    await fleet.claim_one()
    for shards_of in ("", batch.task_id):
        shard = await fleet.submit(
            batch_id=shards_of, budget={"max_cost_microusd": 100}, idempotency_key="k" + shards_of
        )
        claim = await fleet.claim_one("w2")
        await fleet.transport.emit(claim.lease, fleet.progress(claim), charge_microusd=7)
        await fleet.finish(claim, "found")
        if not shards_of:
            other = shard
    await until_forgotten(fleet, other.task_id)
    await asyncio.sleep(RETENTION_MS / 1000)

    assert (await fleet.ended(shard.task_id)).output.text == "found"
    assert (await fleet.transport.ledger(shard.trace_id)).spent_microusd == 7
    (handle,) = await fleet.transport.submit([shard.model_copy(update={"task_id": new_task_id()})])
    assert (handle.task_id, handle.existing) == (shard.task_id, True)


async def test_a_key_stands_for_its_task_until_that_can_no_longer_run(make_fleet):
    fleet = await make_fleet(Limits(idempotency_ms=50))
    first = await fleet.submit(idempotency_key="k", deadline_ms=60_000)
    await asyncio.sleep(0.1)  # the window is over

    (handle,) = await fleet.transport.submit([fleet.request(idempotency_key="k", deadline_ms=60_000)])

    assert handle.existing
    assert handle.task_id == first.task_id
    assert (await fleet.transport.record(first.task_id)).state is State.PENDING
