"""What every transport promises about cancelling, held against each implementation. Time is the store's own."""

from __future__ import annotations

import asyncio

import pytest

from envelope.lifecycle import State
from transport.errors import Refused


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
    await fleet.claim_one("w1")
    keeper = fleet.transport.keeper()
    loop = asyncio.get_running_loop()
    waiting = asyncio.create_task(asyncio.to_thread(keeper.wait, "w1", 10))
    started_at = loop.time()

    await fleet.transport.cancel(request.task_id, by="me", reason="enough")
    await waiting

    assert loop.time() - started_at < 5
    keeper.close()


async def test_a_keeper_that_waits_can_be_interrupted(fleet):
    keeper = fleet.transport.keeper()
    waiting = asyncio.create_task(asyncio.to_thread(keeper.wait, "w1", 10))
    await asyncio.wait({waiting}, timeout=0.05)

    keeper.interrupt()

    async with asyncio.timeout(5):
        await waiting
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
