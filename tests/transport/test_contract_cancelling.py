"""What every transport promises about cancelling, held against each implementation. Time is the store's own."""

from __future__ import annotations

import asyncio

import pytest

from envelope.lifecycle import State
from envelope.messages import TaskResult
from transport.errors import Fenced, Refused


async def test_cancelling_reaches_the_whole_tree(fleet):
    root = await fleet.submit()
    running = await fleet.claim_one()
    queued = fleet.child(root)
    await fleet.transport.submit([queued])
    grandchild = fleet.child(queued)
    await fleet.transport.submit([grandchild])
    bystander = await fleet.submit()

    assert await fleet.transport.cancel(root.task_id, by="me", reason="changed my mind") == 3

    for task in (queued, grandchild):
        result = await fleet.transport.result(task.task_id)
        assert (result.status, result.errors[0].message) == (State.CANCELLED, "changed my mind")
    keeper = fleet.transport.keeper()
    assert keeper.renew([running.lease]).cancelled == {root.task_id: "changed my mind"}
    keeper.close()
    assert (await fleet.transport.record(bystander.task_id)).state is State.PENDING


async def test_a_keeper_is_woken_when_a_task_of_its_worker_is_cancelled(fleet):
    request = await fleet.submit()
    claim = await fleet.claim_one("w1")
    keeper = fleet.transport.keeper()
    waiting = asyncio.create_task(asyncio.to_thread(keeper.wait, "w1", 250))

    await fleet.transport.cancel(request.task_id, by="me", reason="enough")

    woken, _ = await asyncio.wait({waiting}, timeout=60)
    assert woken == {waiting}
    assert keeper.renew([claim.lease]).cancelled == {request.task_id: "enough"}
    keeper.close()


async def test_a_keeper_that_waits_can_be_interrupted(fleet):
    keeper = fleet.transport.keeper()
    waiting = asyncio.create_task(asyncio.to_thread(keeper.wait, "w1", 250))
    woken, _ = await asyncio.wait({waiting}, timeout=0.05)
    assert not woken

    keeper.interrupt()

    woken, _ = await asyncio.wait({waiting}, timeout=60)
    assert woken == {waiting}
    keeper.close()


async def test_a_cancelled_task_never_starts(fleet):
    request = await fleet.submit()
    await fleet.transport.cancel(request.task_id, by="me", reason="no")

    assert await fleet.transport.claim("explore", "w", slots=1, wait_s=0) == []
    assert (await fleet.transport.stats(["explore"]))[0].ready == 0


async def test_a_cancelled_task_takes_no_more_children(fleet):
    request = await fleet.submit()
    await fleet.claim_one()
    await fleet.transport.cancel(request.task_id, by="me", reason="no")

    with pytest.raises(Refused):
        await fleet.transport.submit([fleet.child(request)])


async def test_cancelling_what_has_ended_changes_nothing(fleet):
    request = await fleet.submit()
    await fleet.finish(await fleet.claim_one())

    assert await fleet.transport.cancel(request.task_id, by="me", reason="late") == 0
    assert (await fleet.transport.result(request.task_id)).status is State.COMPLETED


async def test_a_cancelled_task_that_is_given_back_or_lost_ends_as_cancelled(hasty_fleet):
    fleet = hasty_fleet
    given, lost = await fleet.submit(), await fleet.submit()
    claims = await fleet.transport.claim("explore", "w", slots=2, wait_s=0)
    for request in (given, lost):
        await fleet.transport.cancel(request.task_id, by="me", reason="no")

    await fleet.transport.give_back(next(c.lease for c in claims if c.lease.task_id == given.task_id))
    assert await fleet.transport.claim("explore", "w2", slots=2, wait_s=0.7) == []

    for request in (given, lost):
        assert (await fleet.transport.result(request.task_id)).status is State.CANCELLED


async def test_the_children_of_a_task_that_ends_are_cancelled(fleet):
    root = await fleet.submit()
    claim = await fleet.claim_one()
    child = fleet.child(root)
    await fleet.transport.submit([child])

    await fleet.finish(claim)

    result = await fleet.transport.result(child.task_id)
    assert (result.status, result.errors[0].message) == (State.CANCELLED, "its parent ended")


async def test_a_running_task_that_ignores_its_cancellation_is_ended_by_the_queue_after_the_grace(hasty_fleet):
    fleet = hasty_fleet
    root = await fleet.submit()
    claim = await fleet.claim_one("deaf")
    child = fleet.child(root)
    await fleet.transport.submit([child])
    await fleet.claim_one("deaf too")
    cancelled_at_ms = await fleet.transport.now_ms()
    await fleet.transport.cancel(root.task_id, by="me", reason="enough")
    keeper = fleet.transport.keeper()
    while root.task_id not in (await asyncio.to_thread(keeper.renew, [claim.lease])).lost:
        await fleet.transport.claim("explore", "w2", slots=1, wait_s=0.05)
    keeper.close()

    for task in (root, child):
        result = await fleet.ended(task.task_id)
        assert (result.status, result.errors[0].message) == (State.CANCELLED, "enough")
    record = await fleet.transport.record(root.task_id)
    assert record.finished_at_ms >= cancelled_at_ms + fleet.transport.limits.expiry_grace_ms
    took_ms = (await fleet.transport.result(root.task_id)).metrics.latency_ms
    assert took_ms == record.finished_at_ms - record.started_at_ms
    assert record.lost_leases == 0
    with pytest.raises(Fenced):
        await fleet.finish(claim)


async def test_a_second_cancellation_gives_no_second_grace(hasty_fleet):
    fleet = hasty_fleet
    await fleet.submit()
    claim = await fleet.claim_one()
    await fleet.transport.cancel(claim.lease.task_id, by="me", reason="first")
    first_at_ms = await fleet.transport.now_ms()
    keeper = fleet.transport.keeper()
    while claim.lease.task_id not in (await asyncio.to_thread(keeper.renew, [claim.lease])).lost:
        await fleet.transport.cancel(claim.lease.task_id, by="me", reason="again")
        await fleet.transport.claim("explore", "w2", slots=1, wait_s=0.05)
    keeper.close()

    result = await fleet.transport.result(claim.lease.task_id)
    record = await fleet.transport.record(claim.lease.task_id)
    assert result.errors[0].message == "first"
    assert record.finished_at_ms - first_at_ms < 3 * fleet.transport.limits.expiry_grace_ms


async def test_a_task_may_end_itself_within_the_grace_of_its_cancellation(fleet):
    await fleet.submit()
    claim = await fleet.claim_one()
    await fleet.transport.cancel(claim.lease.task_id, by="me", reason="enough")
    await fleet.transport.emit(claim.lease, fleet.progress(claim), charge_microusd=1)

    await fleet.transport.finish(claim.lease, fleet.result(claim, "what I have", State.CANCELLED))

    assert (await fleet.transport.result(claim.lease.task_id)).output.text == "what I have"


async def test_what_the_queue_ends_says_how_to_go_on_with_it(fleet):
    await fleet.submit()
    claim = await fleet.claim_one()
    await fleet.transport.checkpoint(claim.lease, "sha256:" + "0" * 64)
    await fleet.transport.give_back(claim.lease)
    fresh = await fleet.submit()
    for task_id in (claim.lease.task_id, fresh.task_id):
        await fleet.transport.cancel(task_id, by="me", reason="enough")

    assert (await fleet.transport.result(claim.lease.task_id)).resume_token == claim.lease.task_id
    assert (await fleet.transport.result(fresh.task_id)).resume_token == ""


async def test_a_record_tells_who_cancelled_first_and_why(fleet):
    await fleet.submit()
    claim = await fleet.claim_one()
    await fleet.transport.cancel(claim.lease.task_id, by="ann", reason="too slow")
    await fleet.transport.cancel(claim.lease.task_id, by="bob", reason="me too")

    record = await fleet.transport.record(claim.lease.task_id)

    assert (record.state, record.cancelled_by, record.cancel_reason) == (State.RUNNING, "ann", "too slow")


async def test_the_ends_of_a_cancelled_tree_are_told_from_the_leaves_up(fleet):
    root = fleet.request()
    child = fleet.child(root)
    grandchild = fleet.child(child)
    await fleet.transport.submit([root, child, grandchild])
    await fleet.transport.cancel(root.task_id, by="me", reason="no")

    entries = [entry async for entry in fleet.transport.follow(root.trace_id)]

    ends = [entry.message.task_id for entry in entries if isinstance(entry.message, TaskResult)]
    assert ends == [grandchild.task_id, child.task_id, root.task_id]
