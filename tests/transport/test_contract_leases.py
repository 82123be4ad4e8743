"""What every transport promises about leases and time, held against each implementation. Time is the store's own."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from envelope.errors import ErrorCode
from envelope.lifecycle import State
from envelope.messages import TaskProgress, TaskResult
from transport.base import Claim, Entry
from transport.errors import Fenced
from transport.limits import Limits


async def collect(entries) -> list[Entry]:
    return [entry async for entry in entries]


async def test_a_renewed_lease_is_kept(make_fleet):
    fleet = await make_fleet(Limits(lease_ms=700))
    await fleet.submit()
    claim = await fleet.claim_one("w1")
    keeper = fleet.transport.keeper()
    waiting = asyncio.create_task(fleet.transport.claim("explore", "w2", slots=1, wait_s=1.5))
    while not waiting.done():
        renewal = await asyncio.to_thread(keeper.renew, [claim.lease])
        assert not renewal.lost
        await asyncio.wait({waiting}, timeout=0.1)

    assert await waiting == []
    await fleet.finish(claim)
    keeper.close()


async def test_the_tasks_of_a_lost_worker_start_again_when_their_leases_end(hasty_fleet):
    fleet = hasty_fleet
    await fleet.transport.submit([fleet.request() for _ in range(10)])
    lost = await fleet.transport.claim("explore", "lost", slots=10, wait_s=0)

    again: list[Claim] = []
    while len(again) < len(lost):  # several cells started them at slightly different moments
        again += await fleet.transport.claim("explore", "heir", slots=10 - len(again), wait_s=10)

    assert {claim.lease.task_id for claim in again} == {claim.lease.task_id for claim in lost}
    assert all(claim.lost_leases == 1 for claim in again)


async def test_a_lost_lease_shows_in_the_stream(hasty_fleet):
    request = await hasty_fleet.submit()
    await hasty_fleet.claim_one("lost")
    await hasty_fleet.finish(await hasty_fleet.claim_one("heir"))

    entries = await collect(hasty_fleet.transport.follow(request.trace_id))

    states = [
        event.state for entry in entries if isinstance(entry.message, TaskProgress) for event in entry.message.events
    ]
    assert states == [State.PENDING, State.RUNNING, State.PENDING, State.RUNNING]


async def test_the_third_lost_lease_ends_the_task_as_poison(make_fleet):
    fleet = await make_fleet(Limits(lease_ms=100))
    request = await fleet.submit()
    for attempt in (1, 2, 3):
        assert (await fleet.claim_one()).lease.attempt == attempt

    assert await fleet.transport.claim("explore", "w", slots=1, wait_s=0.5) == []

    result = await fleet.ended(request.task_id)
    assert (result.status, result.errors[0].code) == (State.ERROR, ErrorCode.POISON)
    assert (await fleet.transport.record(request.task_id)).lost_leases == 3
    assert (await fleet.transport.counters())["poisoned"] == 1


async def test_leases_that_were_lost_before_a_task_got_on_are_no_poison(make_fleet):
    fleet = await make_fleet(Limits(lease_ms=300, poison_after=1, way_back=3))
    request = await fleet.submit()
    for gets_on in (True, False, True, False, False):
        claim = await fleet.claim_one()
        await fleet.transport.emit(claim.lease, fleet.progress(claim), gets_on=gets_on)

    assert await fleet.transport.claim("explore", "w", slots=1, wait_s=0.5) == []

    result = await fleet.ended(request.task_id)
    assert result.errors[0].code is ErrorCode.POISON
    assert (await fleet.transport.record(request.task_id)).lost_leases == 5


async def test_a_queued_task_past_its_deadline_is_ended_by_the_reaper(fleet):
    request = await fleet.submit(deadline_ms=20)
    assert await fleet.transport.claim("build", "w", slots=1, wait_s=0.2) == []  # any worker alive will do

    result = await fleet.ended(request.task_id)

    assert (result.status, result.errors[0].code) == (State.EXPIRED, ErrorCode.DEADLINE)
    assert await fleet.transport.claim("explore", "w", slots=1, wait_s=0) == []


async def test_a_running_task_past_its_deadline_is_told_and_may_end_itself(fleet):
    claim = await fleet.begun(deadline_ms=20)
    keeper = fleet.transport.keeper()
    while not (renewal := keeper.renew([claim.lease])).expired:
        await fleet.transport.reap()

    assert renewal.expired == {claim.lease.task_id}
    await fleet.transport.finish(claim.lease, fleet.result(claim, "what I have", State.EXPIRED))
    assert (await fleet.transport.result(claim.lease.task_id)).output.text == "what I have"
    keeper.close()


async def test_a_running_task_that_ignores_its_deadline_is_ended_by_the_queue(hasty_fleet):
    fleet = hasty_fleet
    claim = await fleet.begun(deadline_ms=50)
    keeper = fleet.transport.keeper()
    while claim.lease.task_id not in (await asyncio.to_thread(keeper.renew, [claim.lease])).lost:
        await fleet.transport.claim("explore", "w2", slots=1, wait_s=0.05)

    assert (await fleet.transport.result(claim.lease.task_id)).status is State.EXPIRED
    with pytest.raises(Fenced):
        await fleet.finish(claim)
    keeper.close()


async def test_a_parent_and_its_queued_child_that_expire_together_end_once_each(fleet):
    parent = fleet.request(deadline_ms=20)
    child = fleet.child(parent, deadline_ms=20)
    await fleet.transport.submit([parent, child])
    await fleet.transport.claim("build", "w", slots=1, wait_s=0.2)  # any worker alive reaps
    await fleet.ended(parent.task_id)

    assert await results_in_stream(fleet, parent.trace_id) == {parent.task_id: 1, child.task_id: 1}


async def test_a_lease_and_a_deadline_that_end_together_end_the_task_once(hasty_fleet):
    fleet = hasty_fleet
    lease = (await fleet.begun(deadline_ms=50, worker="lost")).lease
    await fleet.transport.claim("explore", "heir", slots=1, wait_s=1.0)
    await fleet.ended(lease.task_id)

    assert await results_in_stream(fleet, lease.trace_id) == {lease.task_id: 1}


async def results_in_stream(fleet, trace_id: str) -> Counter[str]:
    entries = await collect(fleet.transport.follow(trace_id))
    return Counter(entry.message.task_id for entry in entries if isinstance(entry.message, TaskResult))


async def test_reaping_touches_nothing_that_is_in_time(fleet):
    await fleet.transport.submit([fleet.request(), fleet.request()])
    await fleet.claim_one()

    assert await fleet.transport.reap() == 0
