"""What every transport promises about tasks that wait, held against each implementation."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from envelope.errors import ErrorCode
from envelope.events import StateChanged
from envelope.ids import new_task_id
from envelope.lifecycle import State
from envelope.messages import TaskProgress, TaskResult
from transport.base import Entry, Wait
from transport.errors import Fenced, NotFound
from transport.limits import Limits


async def collect(entries) -> list[Entry]:
    return [entry async for entry in entries]


async def family(fleet, *, children: int = 1, **fields):
    """A running parent's claim, and the requests of its queued children."""
    root = await fleet.submit(**fields)
    claim = await fleet.claim_one("parent")
    requests = [fleet.child(root) for _ in range(children)]
    await fleet.transport.submit(requests, under=claim.lease)
    return claim, requests


def waits_for(*requests, asks=(), until_ms=None) -> Wait:
    return Wait(frozenset(request.task_id for request in requests), frozenset(asks), until_ms)


def told(entries: list[Entry], task_id: str) -> list[StateChanged]:
    """What the queue said of a task's state, in order."""
    return [
        event
        for entry in entries
        if isinstance(entry.message, TaskProgress) and entry.message.task_id == task_id
        for event in entry.message.events
        if isinstance(event, StateChanged)
    ]


# -- for children


async def test_a_parked_task_gives_its_slot_to_its_child_and_takes_one_again(fleet):
    parent, (child,) = await family(fleet)

    assert await fleet.transport.park(parent.lease, waits_for(child))

    record = await fleet.transport.record(parent.lease.task_id)
    assert (record.state, record.waits_for, record.worker) == (State.WAITING, (child.task_id,), "")
    (only,) = await fleet.transport.claim("explore", "w", slots=9, wait_s=0)
    assert only.lease.task_id == child.task_id
    await fleet.finish(only)
    again = await fleet.claim_one("w")
    assert (again.lease.task_id, again.lease.attempt) == (parent.lease.task_id, 2)
    assert (again.lost_leases, again.retries) == (0, 0)
    assert again.first_started_at_ms == parent.started_at_ms <= again.started_at_ms


async def test_nested_fan_out_ends_with_one_slot(fleet):
    """Depth three, two children each, one worker that does one thing at a time."""
    root = await fleet.submit()
    depth = {root.task_id: 0}
    started = 0
    while claims := await fleet.transport.claim("explore", "w", slots=1, wait_s=0):
        started += 1
        (claim,) = claims
        task_id = claim.lease.task_id
        if claim.lease.attempt == 1 and depth[task_id] < 2:
            parent = await fleet.transport.request(task_id)
            children = [fleet.child(parent) for _ in range(2)]
            await fleet.transport.submit(children, under=claim.lease)
            depth |= {child.task_id: depth[task_id] + 1 for child in children}
            assert await fleet.transport.park(claim.lease, waits_for(*children))
        else:
            await fleet.finish(claim)

    records = await fleet.transport.tasks(trace_id=root.trace_id)
    assert [record.state for record in records] == [State.COMPLETED] * 7
    assert started == 7 + 3  # each of the three that waited started twice


async def test_all_that_is_awaited_must_have_ended(fleet):
    parent, (one, two, other) = await family(fleet, children=3)
    await fleet.transport.park(parent.lease, waits_for(one, two))
    claims = {c.lease.task_id: c for c in await fleet.transport.claim("explore", "w", slots=9, wait_s=0)}

    for task, state in ((one, State.WAITING), (other, State.WAITING), (two, State.PENDING)):
        await fleet.finish(claims[task.task_id])
        assert (await fleet.transport.record(parent.lease.task_id)).state is state


async def test_a_child_that_fails_or_is_cancelled_has_ended_too(fleet):
    parent, (failing, cancelled) = await family(fleet, children=2)
    await fleet.transport.park(parent.lease, waits_for(failing, cancelled))
    claim = await fleet.claim_one()
    await fleet.transport.finish(claim.lease, fleet.result(claim, status=State.ERROR))
    await fleet.transport.cancel(cancelled.task_id, by="me", reason="no")

    assert (await fleet.claim_one()).lease.task_id == parent.lease.task_id


async def test_what_has_ended_already_is_not_waited_for(fleet):
    parent, (ended, live) = await family(fleet, children=2)
    await fleet.finish(await fleet.claim_one())

    assert not await fleet.transport.park(parent.lease, waits_for(ended))
    assert (await fleet.transport.record(parent.lease.task_id)).state is State.RUNNING  # nothing happened
    assert await fleet.transport.park(parent.lease, waits_for(ended, live))
    assert (await fleet.transport.record(parent.lease.task_id)).waits_for == (live.task_id,)


async def test_the_first_of_them_is_enough_where_the_wait_says_so(fleet):
    parent, (one, other) = await family(fleet, children=2)
    wait = replace(waits_for(one, other), first=True)

    assert await fleet.transport.park(parent.lease, wait)

    assert (await fleet.transport.record(parent.lease.task_id)).waits_for == tuple(sorted([one.task_id, other.task_id]))
    await fleet.finish(await fleet.claim_one())
    again = await fleet.claim_one()
    assert (again.lease.task_id, again.lease.attempt) == (parent.lease.task_id, 2)
    assert not await fleet.transport.park(again.lease, wait)  # one of them is there
    assert await fleet.transport.park(again.lease, waits_for(one, other))
    assert (await fleet.transport.record(parent.lease.task_id)).waits_for == (other.task_id,)


async def test_a_word_to_its_session_is_enough_there_too(fleet):
    parent, (child,) = await family(fleet)
    wait = replace(waits_for(child), first=True)
    session = parent.lease.task_id
    await fleet.transport.prompt(session, "come", by="me")
    assert not await fleet.transport.park(parent.lease, wait)
    await fleet.transport.checkpoint(parent.lease, await fleet.transport.blobs.put(b"heard it"), heard=1)
    assert await fleet.transport.park(parent.lease, wait)

    await fleet.transport.prompt(session, "come again", by="me")

    record = await fleet.transport.record(session)
    assert (record.state, record.waits_for) == (State.PENDING, ())
    entries = await collect(fleet.transport.follow(parent.lease.trace_id, wait=False))
    assert told(entries, session)[-1].reason == "a prompt came in"
    assert child.parent_task_id == session


async def test_a_word_wakes_nobody_who_waits_for_all(fleet):
    parent, (child,) = await family(fleet)
    await fleet.transport.park(parent.lease, waits_for(child))

    await fleet.transport.prompt(parent.lease.task_id, "come", by="me")

    assert (await fleet.transport.record(parent.lease.task_id)).state is State.WAITING


# -- for a child that is sent to the background


async def test_a_parent_goes_on_without_the_child_that_was_sent_to_the_background(fleet):
    parent, (child,) = await family(fleet)
    await fleet.transport.park(parent.lease, waits_for(child))

    assert await fleet.transport.background(child.task_id)

    record = await fleet.transport.record(parent.lease.task_id)
    assert (record.state, record.waits_for, record.background) == (State.PENDING, (), (child.task_id,))
    entries = await collect(fleet.transport.follow(parent.lease.trace_id, wait=False))
    assert told(entries, record.task_id)[-1].reason == "what it waited for goes on in the background"
    assert (await fleet.transport.record(child.task_id)).state is State.PENDING


async def test_it_waits_on_for_its_other_children(fleet):
    parent, (sent, other) = await family(fleet, children=2)
    await fleet.transport.park(parent.lease, waits_for(sent, other))
    claims = {c.lease.task_id: c for c in await fleet.transport.claim("explore", "w", slots=9, wait_s=0)}

    assert await fleet.transport.background(sent.task_id)

    record = await fleet.transport.record(parent.lease.task_id)
    assert (record.state, record.waits_for) == (State.WAITING, (other.task_id,))
    await fleet.finish(claims[sent.task_id])
    assert (await fleet.transport.record(record.task_id)).state is State.WAITING
    await fleet.finish(claims[other.task_id])
    assert (await fleet.claim_one()).lease.task_id == record.task_id


async def test_who_is_about_to_wait_for_it_does_not_park(fleet):
    parent, (sent, other) = await family(fleet, children=2)

    assert await fleet.transport.background(sent.task_id)

    assert not await fleet.transport.park(parent.lease, waits_for(sent))
    assert (await fleet.transport.record(parent.lease.task_id)).state is State.RUNNING
    assert await fleet.transport.park(parent.lease, waits_for(sent, other))
    assert (await fleet.transport.record(parent.lease.task_id)).waits_for == (other.task_id,)


async def test_the_end_of_such_a_child_wakes_who_waits_for_the_first_of_several(fleet):
    parent, (sent,) = await family(fleet)
    await fleet.transport.park(parent.lease, waits_for(sent))
    await fleet.transport.background(sent.task_id)
    claims = {c.lease.task_id: c for c in await fleet.transport.claim("explore", "w", slots=9, wait_s=0)}
    again = claims[parent.lease.task_id]

    assert await fleet.transport.park(again.lease, replace(waits_for(sent), first=True))

    assert await fleet.transport.background(sent.task_id)  # said twice: it waits on
    assert (await fleet.transport.record(again.lease.task_id)).state is State.WAITING
    await fleet.finish(claims[sent.task_id])
    assert (await fleet.claim_one()).lease.task_id == again.lease.task_id


async def test_the_mark_outlives_the_parents_worker(fleet):
    parent, (child,) = await family(fleet)
    await fleet.transport.background(child.task_id)

    await fleet.transport.give_back(parent.lease)

    claims = {c.lease.task_id: c for c in await fleet.transport.claim("explore", "w", slots=9, wait_s=0)}
    again = claims[parent.lease.task_id]
    assert (await fleet.transport.record(again.lease.task_id)).background == (child.task_id,)
    assert not await fleet.transport.park(again.lease, waits_for(child))


@pytest.mark.parametrize("wait", ["for another", "for the first", "for people"])
async def test_nobody_goes_on_without_a_child_that_is_not_waited_for(fleet, wait):
    parent, (child, other) = await family(fleet, children=2)
    waits = {
        "for another": waits_for(other),
        "for the first": replace(waits_for(child), first=True),
        "for people": waits_for(asks=("ask_1",)),
    }
    await fleet.transport.park(parent.lease, waits[wait])
    before = await fleet.transport.record(parent.lease.task_id)

    assert not await fleet.transport.background(child.task_id)

    assert await fleet.transport.record(parent.lease.task_id) == before


async def test_what_has_ended_or_has_no_parent_goes_nowhere(fleet):
    parent, (child,) = await family(fleet)
    await fleet.finish(await fleet.claim_one())

    assert not await fleet.transport.background(child.task_id)
    assert not await fleet.transport.background(parent.lease.task_id)
    assert (await fleet.transport.record(parent.lease.task_id)).background == ()
    with pytest.raises(NotFound):
        await fleet.transport.background(new_task_id())


async def test_a_child_that_is_being_stopped_goes_nowhere(fleet):
    parent, (child,) = await family(fleet)
    await fleet.transport.park(parent.lease, waits_for(child))

    await fleet.transport.cancel(parent.lease.task_id, by="me", reason="enough")

    assert not await fleet.transport.background(child.task_id)


async def test_nothing_to_wait_for_does_not_park(fleet):
    await fleet.submit()
    claim = await fleet.claim_one()

    assert not await fleet.transport.park(claim.lease, Wait())
    assert not await fleet.transport.park(claim.lease, Wait(children=frozenset({new_task_id()})))
    await fleet.finish(claim)


async def test_a_woken_task_is_the_next_of_its_trace(fleet):
    parent, (child, *_rest) = await family(fleet, children=3)
    await fleet.transport.park(parent.lease, waits_for(child))
    await fleet.finish(await fleet.claim_one())

    assert (await fleet.claim_one()).lease.task_id == parent.lease.task_id


async def test_a_waiting_worker_is_woken_for_a_task_that_goes_on(fleet, monkeypatch):
    monkeypatch.setattr(Limits, "look_ms", 3_600_000)  # it does not look by itself before a lease ends
    parent, (child,) = await family(fleet)
    await fleet.transport.park(parent.lease, waits_for(child))
    claim = await fleet.claim_one()
    waiting = asyncio.create_task(fleet.claim_one("w2", wait_s=30))
    await asyncio.wait({waiting}, timeout=0.05)

    await fleet.finish(claim)

    async with asyncio.timeout(14):
        assert (await waiting).lease.task_id == parent.lease.task_id


async def test_the_stream_tells_of_the_wait_and_of_its_end(fleet):
    parent, (child,) = await family(fleet)
    await fleet.transport.park(parent.lease, waits_for(child, asks=["a1", "a2"]))
    await fleet.finish(await fleet.claim_one())
    for ask in ("a1", "a2"):
        await fleet.transport.answer(parent.lease.task_id, ask, "yes", by="me")
    await fleet.finish(await fleet.claim_one())

    changes = told(await collect(fleet.transport.follow(parent.lease.trace_id)), parent.lease.task_id)

    assert [(change.state, change.reason) for change in changes] == [
        (State.PENDING, ""),
        (State.RUNNING, ""),
        (State.WAITING, "waits for 1 children, 2 asks"),
        (State.PENDING, "what it waited for is there"),
        (State.RUNNING, ""),
    ]


# -- for a time


async def test_a_task_waits_no_longer_than_it_said(fleet):
    parent, (child,) = await family(fleet)
    until_ms = await fleet.transport.now_ms() + 150
    await fleet.transport.park(parent.lease, waits_for(child, asks=["a"], until_ms=until_ms))
    await fleet.claim_one("w1")  # the child, which goes on

    again = await fleet.claim_one("w2")

    assert again.lease.task_id == parent.lease.task_id
    assert again.started_at_ms >= until_ms
    assert (await fleet.transport.record(parent.lease.task_id)).waits_for == ()
    changes = told([entry async for entry in first(fleet, parent, 6)], parent.lease.task_id)
    assert changes[-2].reason == "it waited long enough"


async def first(fleet, claim, count: int):
    """The first entries of a trace that has not ended."""
    async for entry in fleet.transport.follow(claim.lease.trace_id):
        yield entry
        count -= 1
        if not count:
            return


async def test_a_wait_that_is_over_early_does_not_wake_again_later(fleet):
    parent, (child,) = await family(fleet)
    until_ms = await fleet.transport.now_ms() + 100
    await fleet.transport.park(parent.lease, waits_for(child, until_ms=until_ms))
    await fleet.finish(await fleet.claim_one())
    again = await fleet.claim_one()

    assert await fleet.transport.claim("explore", "w", slots=1, wait_s=0.3) == []
    await fleet.finish(again)


async def test_a_waiting_task_ends_at_its_deadline_with_its_children(fleet):
    parent, (child,) = await family(fleet, deadline_ms=1_000)  # time enough to park on a busy machine
    await fleet.transport.park(parent.lease, waits_for(child, asks=["a"]))

    assert await fleet.transport.claim("build", "any", slots=1, wait_s=1.3) == []

    result = await fleet.ended(parent.lease.task_id)
    assert (result.status, result.errors[0].code) == (State.EXPIRED, ErrorCode.DEADLINE)
    entries = await collect(fleet.transport.follow(parent.lease.trace_id))
    ends = [entry.message.task_id for entry in entries if isinstance(entry.message, TaskResult)]
    assert sorted(ends) == sorted([parent.lease.task_id, child.task_id])
    assert State.PENDING not in [change.state for change in told(entries, parent.lease.task_id)[2:]]  # not woken
    assert await fleet.transport.claim("explore", "w", slots=9, wait_s=0) == []


# -- what stops it


async def test_a_waiting_task_that_is_cancelled_ends_at_once_with_its_children(fleet):
    parent, children = await family(fleet, children=2)
    await fleet.transport.park(parent.lease, waits_for(*children))

    assert await fleet.transport.cancel(parent.lease.task_id, by="me", reason="enough") == 3

    for task_id in (parent.lease.task_id, *(child.task_id for child in children)):
        result = await fleet.transport.result(task_id)
        assert (result.status, result.errors[0].message) == (State.CANCELLED, "enough")
    assert await fleet.transport.claim("explore", "w", slots=9, wait_s=0) == []


async def test_a_task_that_parks_while_it_is_cancelled_ends_instead(fleet):
    parent, (child,) = await family(fleet)
    (running,) = await fleet.transport.claim("explore", "w", slots=1, wait_s=0)
    await fleet.transport.cancel(parent.lease.task_id, by="me", reason="enough")

    await fleet.transport.park(parent.lease, waits_for(child))

    assert (await fleet.transport.result(parent.lease.task_id)).status is State.CANCELLED
    assert (await fleet.transport.record(running.lease.task_id)).state is State.RUNNING  # has its grace


async def test_who_has_parked_holds_no_lease(fleet):
    parent, (child,) = await family(fleet)
    await fleet.transport.park(parent.lease, waits_for(child))

    for write in (
        fleet.transport.emit(parent.lease, fleet.progress(parent)),
        fleet.transport.park(parent.lease, waits_for(child)),
        fleet.transport.submit([fleet.request()], under=parent.lease),
        fleet.transport.finish(parent.lease, fleet.result(parent)),
    ):
        with pytest.raises(Fenced):
            await write
    keeper = fleet.transport.keeper()
    assert (await asyncio.to_thread(keeper.renew, [parent.lease])).lost == {parent.lease.task_id}
    keeper.close()


async def test_a_waiting_task_takes_no_slot_and_leaves_the_queue_with_its_children(fleet):
    parent, (child,) = await family(fleet)
    await fleet.transport.park(parent.lease, waits_for(child))
    stats = (await fleet.transport.stats(["explore"]))[0]

    assert (stats.ready, stats.running) == (1, 0)
    await fleet.transport.cancel(parent.lease.task_id, by="me", reason="no")
    assert (await fleet.transport.stats(["explore"]))[0].ready == 0
