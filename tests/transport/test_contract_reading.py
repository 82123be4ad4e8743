"""What every transport promises about reading, held against each implementation. Time is the store's own."""

from __future__ import annotations

import asyncio

from envelope.events import ChildSpawned, StateChanged, TextDelta
from envelope.ids import new_trace_id
from envelope.lifecycle import State
from envelope.messages import TaskResult
from transport.base import Entry


async def collect(entries) -> list[Entry]:
    return [entry async for entry in entries]


async def test_a_trace_tells_the_start_the_progress_and_the_result(fleet):
    request = await fleet.submit()
    claim = await fleet.claim_one()
    await fleet.transport.emit(claim.lease, fleet.progress(claim, "half way"))
    await fleet.finish(claim)

    accepted, started, progress, result = [e.message for e in await collect(fleet.transport.follow(request.trace_id))]

    assert accepted.events == (StateChanged(state=State.PENDING, reason="", worker=""),)
    assert (accepted.seq, accepted.attempt) == (-1, 0)
    assert started.events == (StateChanged(state=State.RUNNING, reason="", worker="w1"),)
    assert (started.seq, started.attempt, started.status) == (-1, 1, State.RUNNING)
    assert progress.events == (TextDelta(text="half way"),)
    assert result.status is State.COMPLETED


async def test_a_follower_sees_what_comes_later_and_stops_at_the_roots_result(fleet):
    root = await fleet.submit()
    claim = await fleet.claim_one()
    following = asyncio.create_task(collect(fleet.transport.follow(root.trace_id)))
    child = fleet.child(root)
    await fleet.transport.submit([child])
    await fleet.finish(await fleet.claim_one())
    await asyncio.wait({following}, timeout=0.05)
    assert not following.done()  # the child's result is not the end

    await fleet.finish(claim)

    async with asyncio.timeout(60):
        entries = await following
    assert [e.message.task_id for e in entries if isinstance(e.message, TaskResult)] == [child.task_id, root.task_id]


async def test_a_reader_resumes_after_the_entry_it_saw_last(fleet):
    request = await fleet.submit()
    claim = await fleet.claim_one()
    for n in range(5):
        await fleet.transport.emit(claim.lease, fleet.progress(claim, str(n)))
    await fleet.finish(claim)
    entries = await collect(fleet.transport.follow(request.trace_id))

    for seen, entry in enumerate(entries):
        rest = await collect(fleet.transport.follow(request.trace_id, after=entry.id))
        assert rest == entries[seen + 1 :]


async def test_concurrent_writes_of_one_task_keep_their_order(fleet):
    request = await fleet.submit()
    claim = await fleet.claim_one()
    writes = [fleet.transport.emit(claim.lease, fleet.progress(claim, str(n))) for n in range(600)]
    await asyncio.gather(*writes, fleet.finish(claim))

    entries = await collect(fleet.transport.follow(request.trace_id))

    texts = [e.message.events[0].text for e in entries[2:-1]]
    assert texts == [str(n) for n in range(600)]


async def test_one_fenced_write_in_a_group_fails_alone(fleet):
    ended, live = await fleet.submit(), await fleet.submit()
    claims = {c.lease.task_id: c for c in await fleet.transport.claim("explore", "w", slots=2, wait_s=0)}
    gone, held = claims[ended.task_id], claims[live.task_id]
    await fleet.finish(gone)

    outcomes = await asyncio.gather(
        fleet.transport.emit(held.lease, fleet.progress(held), charge_microusd=1),
        fleet.transport.emit(gone.lease, fleet.progress(gone), charge_microusd=1),
        fleet.transport.emit(held.lease, fleet.progress(held), charge_microusd=1),
        return_exceptions=True,
    )

    assert [type(outcome).__name__ for outcome in outcomes] == ["Ledger", "Fenced", "Ledger"]
    assert outcomes[2].spent_microusd == 2


async def test_results_come_in_the_order_in_which_tasks_end(fleet):
    first = await fleet.submit()  # all in one cell: those of several come as their servers answer
    requests = [first, *[await fleet.submit(trace_id=first.trace_id) for _ in range(3)]]
    claims = {c.lease.task_id: c for c in await fleet.transport.claim("explore", "w", slots=4, wait_s=0)}
    order = [requests[n] for n in (2, 0, 3, 1)]
    await fleet.finish(claims[order[0].task_id])

    async def rest():
        for request in order[1:]:
            await fleet.finish(claims[request.task_id])

    stream = fleet.transport.results([request.task_id for request in requests])
    ended = [(await anext(stream)).task_id]
    finishing = asyncio.create_task(rest())
    ended += [result.task_id async for result in stream]
    await finishing

    assert ended == [request.task_id for request in order]


async def test_one_waiter_collects_the_results_of_many_traces(fleet):
    requests = [fleet.request() for _ in range(300)]
    await fleet.transport.submit(requests)
    waiting = asyncio.create_task(collect(fleet.transport.results([r.task_id for r in requests])))
    while claims := await fleet.transport.claim("explore", "w", slots=100, wait_s=0):
        await asyncio.gather(*map(fleet.finish, claims))

    async with asyncio.timeout(60):
        results = await waiting

    assert {result.task_id for result in results} == {request.task_id for request in requests}
    assert len(results) == 300


async def test_tasks_of_a_trace_are_listed_as_submitted_and_roots_newest_first(fleet):
    root = await fleet.submit()
    children = [fleet.child(root) for _ in range(3)]
    await fleet.transport.submit(children)
    moment = await fleet.transport.now_ms()
    while await fleet.transport.now_ms() == moment:  # roots of one millisecond stand in the order of their ids
        pass
    other = await fleet.submit()

    in_trace = await fleet.transport.tasks(trace_id=root.trace_id)
    latest = await fleet.transport.tasks(limit=2)

    assert [record.task_id for record in in_trace] == [root.task_id, *(child.task_id for child in children)]
    assert [record.task_id for record in latest] == [other.task_id, root.task_id]
    assert await fleet.transport.tasks(trace_id=new_trace_id()) == []


async def test_a_pool_tells_what_is_ready_and_running(fleet):
    await fleet.transport.submit([fleet.request() for _ in range(3)])
    await fleet.claim_one()

    explore, build = await fleet.transport.stats(["explore", "build"])

    assert (explore.pool, explore.ready, explore.running) == ("explore", 2, 1)
    assert 0 <= explore.oldest_ready_age_s < 60
    assert (build.ready, build.running, build.oldest_ready_age_s) == (0, 0, 0)


async def test_a_reader_that_does_not_wait_ends_with_the_newest_entry(fleet):
    request = await fleet.submit()
    claim = await fleet.claim_one()
    await fleet.transport.emit(claim.lease, fleet.progress(claim, "so far"))

    async with asyncio.timeout(60):
        entries = await collect(fleet.transport.follow(request.trace_id, wait=False))

    assert entries[-1].message.events == (TextDelta(text="so far"),)
    assert await collect(fleet.transport.follow(request.trace_id, after=entries[-1].id, wait=False)) == []


async def test_who_follows_one_task_is_told_of_it_alone(fleet):
    root = await fleet.submit()
    claim = await fleet.claim_one()
    children = [fleet.child(root) for _ in range(2)]
    await fleet.transport.submit(children, under=claim.lease)
    spawned = [ChildSpawned(child_task_id=child.task_id, agent="explore") for child in children]
    said = fleet.progress(claim, "of all")
    await fleet.transport.emit(claim.lease, said.model_copy(update={"events": (*said.events, *spawned)}))
    for _ in children:
        await fleet.finish(await fleet.claim_one())
    mine = children[0].task_id
    following = asyncio.create_task(collect(fleet.transport.follow(root.trace_id, about=mine)))
    await fleet.finish(claim)

    async with asyncio.timeout(60):
        entries = await following
    whole = await collect(fleet.transport.follow(root.trace_id))
    named = [entry for entry in whole if mine in repr(entry.message)]
    assert entries == named and len(entries) < len(whole) - 3
    assert {entry.message.task_id for entry in entries} == {mine, root.task_id}
    assert isinstance(entries[-1].message, TaskResult)
    after = entries[-1].id
    assert await collect(fleet.transport.follow(root.trace_id, after=after, about=mine)) == []
