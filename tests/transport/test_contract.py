"""What every transport promises, held against each implementation. Time is the store's own; leases are short."""

from __future__ import annotations

import asyncio

import pytest

from envelope.codec import decode_request
from envelope.errors import ErrorCode, ScopeExceeded
from envelope.events import StateChanged, TextDelta
from envelope.ids import new_task_id, new_trace_id
from envelope.lifecycle import State
from envelope.messages import Priority, TaskProgress, TaskResult
from transport.base import Entry
from transport.errors import Fenced, NotFound, Refused
from transport.limits import Limits


async def collect(entries) -> list[Entry]:
    return [entry async for entry in entries]


# -- submitting


async def test_a_task_comes_out_as_it_went_in(fleet):
    request = await fleet.submit(intent="look", batch_id="b1")

    claim = await fleet.claim_one()

    assert decode_request(claim.envelope, keyring=fleet.transport.keyring).task_id == request.task_id
    assert await fleet.transport.request(request.task_id) == decode_request(claim.envelope)
    assert (claim.lease.task_id, claim.lease.attempt, claim.lost_leases) == (request.task_id, 1, 0)
    assert claim.accepted_at_ms <= claim.started_at_ms < claim.expires_at_ms


async def test_a_submitted_task_can_be_looked_up_before_it_starts(fleet):
    request = await fleet.submit(intent="look", batch_id="b1")

    record = await fleet.transport.record(request.task_id)

    assert (record.state, record.attempt, record.pool) == (State.PENDING, 0, "explore")
    assert (record.intent, record.batch_id, record.parent_task_id) == ("look", "b1", None)
    assert record.expires_at_ms - record.accepted_at_ms == request.deadline_ms
    assert await fleet.transport.result(request.task_id) is None


async def test_unknown_ids_are_not_found(fleet):
    transport = fleet.transport
    for lookup in (transport.record, transport.request, transport.result):
        with pytest.raises(NotFound):
            await lookup(new_task_id())
    with pytest.raises(NotFound):
        await transport.cancel(new_task_id(), by="me", reason="why not")
    with pytest.raises(NotFound):
        await collect(transport.follow(new_trace_id()))
    with pytest.raises(NotFound):
        await collect(transport.results([new_task_id()]))


async def test_the_same_idempotency_key_gives_the_first_task_back(fleet):
    first, second = fleet.request(idempotency_key="k"), fleet.request(idempotency_key="k")
    (handle,) = await fleet.transport.submit([first])
    (again,) = await fleet.transport.submit([second])

    assert (handle.task_id, handle.existing) == (first.task_id, False)
    assert (again.task_id, again.trace_id, again.existing) == (first.task_id, first.trace_id, True)
    assert len(await fleet.transport.claim("explore", "w", slots=9, wait_s=0)) == 1


async def test_the_same_key_twice_in_one_batch_is_one_task(fleet):
    handles = await fleet.transport.submit([fleet.request(idempotency_key="k") for _ in range(2)])

    assert len({handle.task_id for handle in handles}) == 1
    assert [handle.existing for handle in handles] == [False, True]


async def test_tenants_do_not_share_idempotency_keys(fleet):
    requests = [fleet.request(idempotency_key="k", tenant=tenant) for tenant in ("a", "b")]

    handles = await fleet.transport.submit(requests)

    assert not any(handle.existing for handle in handles)


async def test_an_idempotency_key_is_free_again_after_its_window(make_fleet):
    fleet = await make_fleet(Limits(idempotency_ms=1))
    await fleet.submit(idempotency_key="k")
    before_ms = await fleet.transport.now_ms()
    while await fleet.transport.now_ms() < before_ms + 3:
        pass

    (handle,) = await fleet.transport.submit([fleet.request(idempotency_key="k")])

    assert not handle.existing


async def test_submitting_the_same_task_again_is_safe(fleet):
    request = await fleet.submit()
    (handle,) = await fleet.transport.submit([request])

    assert (handle.task_id, handle.existing) == (request.task_id, False)  # it is no other's
    assert len(await fleet.transport.claim("explore", "w", slots=9, wait_s=0)) == 1


async def test_a_batch_with_one_bad_child_is_refused_whole(fleet):
    good, orphan = fleet.request(), fleet.request(parent_task_id=new_task_id())

    with pytest.raises(Refused) as refusal:
        await fleet.transport.submit([good, orphan])

    assert refusal.value.field == "parent_task_id"
    with pytest.raises(NotFound):
        await fleet.transport.record(good.task_id)


async def test_a_child_of_a_task_that_ended_is_refused(fleet):
    parent = await fleet.submit()
    await fleet.finish(await fleet.claim_one())

    with pytest.raises(Refused):
        await fleet.transport.submit([fleet.child(parent)])


async def test_a_child_expires_no_later_than_its_parent(fleet):
    parent = await fleet.submit(deadline_ms=30_000)
    child = fleet.child(parent, deadline_ms=60_000)
    await fleet.transport.submit([child])

    records = [await fleet.transport.record(task.task_id) for task in (parent, child)]

    assert records[0].expires_at_ms == records[1].expires_at_ms
    assert records[1].parent_task_id == parent.task_id


async def test_a_parent_and_its_child_can_come_in_one_batch(fleet):
    parent = fleet.request(deadline_ms=1_000, auth_scope=("read:**",))
    child = fleet.child(parent, deadline_ms=60_000, auth_scope=("read:src/**",))

    await fleet.transport.submit([parent, child])

    records = [await fleet.transport.record(task.task_id) for task in (parent, child)]
    assert records[0].expires_at_ms == records[1].expires_at_ms


async def test_a_child_that_wants_more_than_its_parent_is_refused_with_the_grant_named(fleet):
    parent = await fleet.submit(auth_scope=("read:src/**",))

    with pytest.raises(ScopeExceeded, match="read:docs"):
        await fleet.transport.submit([fleet.child(parent, auth_scope=("read:src/a", "read:docs/**"))])


async def test_nothing_to_submit_is_no_error(fleet):
    assert await fleet.transport.submit([]) == []


# -- claiming


async def test_no_more_than_the_free_slots_are_claimed(fleet):
    await fleet.transport.submit([fleet.request() for _ in range(5)])

    first = await fleet.transport.claim("explore", "w1", slots=3, wait_s=0)
    rest = await fleet.transport.claim("explore", "w2", slots=3, wait_s=0)

    assert (len(first), len(rest)) == (3, 2)
    assert len({claim.lease.task_id for claim in [*first, *rest]}) == 5


async def test_an_empty_queue_gives_nothing_when_the_wait_is_over(fleet):
    assert await fleet.transport.claim("explore", "w", slots=1, wait_s=0.01) == []


async def test_pools_are_apart(fleet):
    await fleet.submit(recipient="build")

    assert await fleet.transport.claim("explore", "w", slots=1, wait_s=0) == []
    assert (await fleet.claim_one(pool="build")).lease.pool == "build"


async def test_a_waiting_worker_is_woken_by_a_submission(fleet):
    waiting = asyncio.create_task(fleet.claim_one(wait_s=30))
    await asyncio.wait({waiting}, timeout=0.05)  # let it come to its wait
    loop = asyncio.get_running_loop()
    submitted_at = loop.time()
    await fleet.submit()

    await waiting

    assert loop.time() - submitted_at < 2  # well under the 5 s after which it would have looked by itself


async def test_every_waiting_worker_is_woken_when_there_is_work_for_all(fleet):
    waiting = [asyncio.create_task(fleet.claim_one(f"w{n}", wait_s=30)) for n in range(5)]
    await asyncio.wait(waiting, timeout=0.05)

    await fleet.transport.submit([fleet.request() for _ in range(5)])

    async with asyncio.timeout(3):
        claims = await asyncio.gather(*waiting)
    assert len({claim.lease.task_id for claim in claims}) == 5


async def test_a_cancelled_claim_loses_no_task(fleet):
    for _ in range(20):
        claiming = asyncio.create_task(fleet.transport.claim("explore", "w", slots=1, wait_s=30))
        submitting = asyncio.create_task(fleet.submit())
        await asyncio.wait({submitting})
        claiming.cancel()
        try:
            (claim,) = await claiming
        except asyncio.CancelledError:
            claim = await fleet.claim_one(wait_s=0)
        assert claim.lost_leases == 0
        await fleet.finish(claim)


# -- fairness


async def order_of_traces(fleet, names: dict[str, str], *, count: int) -> list[str]:
    claims = await fleet.transport.claim("explore", "w", slots=count, wait_s=0)
    return [names[claim.lease.trace_id] for claim in claims]


async def test_a_trace_of_ten_is_not_held_up_by_one_of_a_thousand(fleet):
    big, small = new_trace_id(), new_trace_id()
    await fleet.transport.submit([fleet.request(trace_id=big) for _ in range(1000)])
    await fleet.transport.submit([fleet.request(trace_id=small) for _ in range(10)])

    started = await order_of_traces(fleet, {big: "big", small: "small"}, count=22)

    assert started.count("small") == 10


async def test_priorities_share_sixteen_to_four_to_one(fleet):
    names = {new_trace_id(): str(priority) for priority in Priority}
    for trace_id, priority in names.items():
        await fleet.transport.submit([fleet.request(trace_id=trace_id, priority=priority) for _ in range(200)])

    started = await order_of_traces(fleet, names, count=210)

    assert [started.count(name) for name in ("high", "normal", "low")] == pytest.approx([160, 40, 10], abs=2)


async def test_a_flow_that_was_away_gets_no_credit_for_it(fleet):
    steady, late = new_trace_id(), new_trace_id()
    await fleet.transport.submit([fleet.request(trace_id=steady) for _ in range(60)])
    await fleet.transport.claim("explore", "w", slots=40, wait_s=0)
    await fleet.transport.submit([fleet.request(trace_id=late) for _ in range(20)])

    started = await order_of_traces(fleet, {steady: "steady", late: "late"}, count=20)

    assert started.count("steady") == pytest.approx(10, abs=1)


async def test_a_trace_that_submits_one_by_one_gains_nothing_by_it(fleet):
    steady, sly = new_trace_id(), new_trace_id()
    await fleet.transport.submit([fleet.request(trace_id=steady) for _ in range(50)])
    started = []
    for _ in range(40):
        await fleet.transport.submit([fleet.request(trace_id=sly)])
        started += await order_of_traces(fleet, {steady: "steady", sly: "sly"}, count=1)

    assert started.count("steady") >= 19


async def test_tasks_of_one_trace_start_in_the_order_of_their_submission(fleet):
    trace = new_trace_id()
    requests = [fleet.request(trace_id=trace) for _ in range(10)]
    await fleet.transport.submit(requests)

    claims = await fleet.transport.claim("explore", "w", slots=10, wait_s=0)

    assert [claim.lease.task_id for claim in claims] == [request.task_id for request in requests]


async def test_traces_of_one_task_start_in_the_order_in_which_they_came(fleet):
    requests = [fleet.request() for _ in range(20)]
    await fleet.transport.submit(requests[:10])
    started = await fleet.transport.claim("explore", "w", slots=5, wait_s=0)
    await fleet.transport.submit(requests[10:])
    started += await fleet.transport.claim("explore", "w", slots=20, wait_s=0)

    assert [claim.lease.task_id for claim in started] == [request.task_id for request in requests]


# -- writing under a lease


async def test_a_task_ends_with_its_result(fleet):
    request = await fleet.submit()
    claim = await fleet.claim_one()

    sent = await fleet.finish(claim, "found it")

    record = await fleet.transport.record(request.task_id)
    assert await fleet.transport.result(request.task_id) == sent
    assert (record.state, record.worker) == (State.COMPLETED, "w1")
    assert record.finished_at_ms >= record.started_at_ms >= record.accepted_at_ms


async def test_finishing_again_is_safe_and_makes_no_second_result(fleet):
    request = await fleet.submit()
    claim = await fleet.claim_one()
    await fleet.finish(claim, "first")
    await fleet.finish(claim, "second")

    entries = await collect(fleet.transport.follow(request.trace_id))

    results = [entry.message for entry in entries if isinstance(entry.message, TaskResult)]
    assert [result.output.text for result in results] == ["first"]


async def test_a_zombie_can_write_nothing(hasty_fleet):
    fleet = hasty_fleet
    request = await fleet.submit()
    zombie = await fleet.claim_one("zombie")
    heir = await fleet.claim_one("heir")  # comes when the zombie's lease is over

    assert (heir.lease.task_id, heir.lease.attempt, heir.lost_leases) == (request.task_id, 2, 1)
    for write in (
        fleet.transport.emit(zombie.lease, fleet.progress(zombie), charge_microusd=5),
        fleet.transport.checkpoint(zombie.lease, "sha256:0"),
        fleet.transport.give_back(zombie.lease),
        fleet.transport.finish(zombie.lease, fleet.result(zombie, "too late")),
    ):
        with pytest.raises(Fenced):
            await write
    assert fleet.transport.keeper().renew([zombie.lease]).lost == {request.task_id}

    await fleet.finish(heir, "in time")
    assert (await fleet.transport.result(request.task_id)).output.text == "in time"
    assert (await fleet.transport.counters())["fenced_writes"] == 4
    assert (await fleet.transport.counters())["lost_leases"] == 1


async def test_the_same_worker_under_an_older_attempt_is_a_zombie_too(hasty_fleet):
    await hasty_fleet.submit()
    first = await hasty_fleet.claim_one("w")
    await hasty_fleet.claim_one("w")

    with pytest.raises(Fenced):
        await hasty_fleet.finish(first)


async def test_a_write_for_a_task_that_is_not_there_is_fenced(fleet):
    await fleet.submit()
    claim = await fleet.claim_one()
    await fleet.finish(claim)

    with pytest.raises(Fenced):
        await fleet.transport.emit(claim.lease, fleet.progress(claim))


async def test_a_checkpoint_is_handed_to_the_next_attempt(fleet):
    await fleet.submit()
    first = await fleet.claim_one()
    blob = await fleet.transport.blobs.put(b"the messages so far")
    await fleet.transport.checkpoint(first.lease, blob)
    await fleet.transport.give_back(first.lease)

    second = await fleet.claim_one()

    assert (first.checkpoint, second.checkpoint) == (None, blob)
    assert await fleet.transport.blobs.get(blob) == b"the messages so far"


async def test_charges_add_up_in_the_traces_ledger(fleet):
    root = await fleet.submit(budget={"max_cost_microusd": 100})
    await fleet.transport.submit([fleet.child(root)])
    one, two = await fleet.transport.claim("explore", "w", slots=2, wait_s=0)

    ledger = await fleet.transport.emit(one.lease, fleet.progress(one), charge_microusd=60)
    assert (ledger.spent_microusd, ledger.cap_microusd, ledger.exhausted) == (60, 100, False)
    ledger = await fleet.transport.emit(two.lease, fleet.progress(two), charge_microusd=40)
    assert (ledger.spent_microusd, ledger.exhausted) == (100, True)


async def test_a_trace_without_a_cap_is_never_exhausted(fleet):
    await fleet.submit()
    claim = await fleet.claim_one()

    ledger = await fleet.transport.emit(claim.lease, fleet.progress(claim), charge_microusd=10**12)

    assert (ledger.cap_microusd, ledger.exhausted) == (None, False)


async def test_a_task_given_back_is_the_next_to_start_and_counts_no_loss(fleet):
    trace = new_trace_id()
    first, _ = [await fleet.submit(trace_id=trace) for _ in range(2)]
    claim = await fleet.claim_one()
    await fleet.transport.give_back(claim.lease)

    again = await fleet.claim_one()

    assert (again.lease.task_id, again.lease.attempt, again.lost_leases) == (first.task_id, 2, 0)


# -- leases and time


async def test_a_renewed_lease_is_kept(hasty_fleet):
    fleet = hasty_fleet
    await fleet.submit()
    claim = await fleet.claim_one("w1")
    keeper = fleet.transport.keeper()
    waiting = asyncio.create_task(fleet.transport.claim("explore", "w2", slots=1, wait_s=1.0))
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

    again = await fleet.transport.claim("explore", "heir", slots=10, wait_s=10)

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
    assert states == [State.RUNNING, State.PENDING, State.RUNNING]


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


async def test_a_queued_task_past_its_deadline_is_ended_by_the_reaper(fleet):
    request = await fleet.submit(deadline_ms=20)
    assert await fleet.transport.claim("build", "w", slots=1, wait_s=0.2) == []  # any worker alive will do

    result = await fleet.ended(request.task_id)

    assert (result.status, result.errors[0].code) == (State.EXPIRED, ErrorCode.DEADLINE)
    assert await fleet.transport.claim("explore", "w", slots=1, wait_s=0) == []


async def test_a_running_task_past_its_deadline_is_told_and_may_end_itself(fleet):
    await fleet.submit(deadline_ms=20)
    claim = await fleet.claim_one()
    keeper = fleet.transport.keeper()
    while not (renewal := keeper.renew([claim.lease])).expired:
        await asyncio.wait_for(fleet.transport.reap(), 5)

    assert renewal.expired == {claim.lease.task_id}
    await fleet.transport.finish(claim.lease, fleet.result(claim, "what I have", State.EXPIRED))
    assert (await fleet.transport.result(claim.lease.task_id)).output.text == "what I have"
    keeper.close()


async def test_a_running_task_that_ignores_its_deadline_is_ended_by_the_queue(hasty_fleet):
    fleet = hasty_fleet
    request = await fleet.submit(deadline_ms=50)
    claim = await fleet.claim_one()
    keeper = fleet.transport.keeper()
    while request.task_id not in (await asyncio.to_thread(keeper.renew, [claim.lease])).lost:
        await fleet.transport.claim("explore", "w2", slots=1, wait_s=0.05)

    assert (await fleet.transport.result(request.task_id)).status is State.EXPIRED
    with pytest.raises(Fenced):
        await fleet.finish(claim)
    keeper.close()


async def test_reaping_touches_nothing_that_is_in_time(fleet):
    await fleet.transport.submit([fleet.request(), fleet.request()])
    await fleet.claim_one()

    assert await fleet.transport.reap() == 0


# -- cancelling


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


# -- reading


async def test_a_trace_tells_the_start_the_progress_and_the_result(fleet):
    request = await fleet.submit()
    claim = await fleet.claim_one()
    await fleet.transport.emit(claim.lease, fleet.progress(claim, "half way"))
    await fleet.finish(claim)

    started, progress, result = [entry.message for entry in await collect(fleet.transport.follow(request.trace_id))]

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

    async with asyncio.timeout(5):
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

    texts = [e.message.events[0].text for e in entries[1:-1]]
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
    requests = [await fleet.submit() for _ in range(4)]
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

    async with asyncio.timeout(10):
        results = await waiting

    assert {result.task_id for result in results} == {request.task_id for request in requests}
    assert len(results) == 300


async def test_tasks_of_a_trace_are_listed_as_submitted_and_roots_newest_first(fleet):
    root = await fleet.submit()
    children = [fleet.child(root) for _ in range(3)]
    await fleet.transport.submit(children)
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
