"""What every transport promises about submitting, held against each implementation. Time is the store's own."""

from __future__ import annotations

import pytest

from envelope.codec import decode_request
from envelope.errors import ScopeExceeded
from envelope.ids import content_key, new_task_id, new_trace_id
from envelope.lifecycle import State
from transport.base import Entry
from transport.errors import Fenced, NotFound, Refused
from transport.limits import DAY_MS, Limits


async def collect(entries) -> list[Entry]:
    return [entry async for entry in entries]


async def passed(fleet, *, ms: int) -> None:
    """Until so much of the store's time is over."""
    before_ms = await fleet.transport.now_ms()
    while await fleet.transport.now_ms() < before_ms + ms:
        pass


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


async def test_an_idempotency_key_is_free_again_after_its_window_and_the_deadline_of_its_task(make_fleet):
    fleet = await make_fleet(Limits(idempotency_ms=1))
    await fleet.submit(idempotency_key="k", deadline_ms=1)
    await passed(fleet, ms=3)

    (handle,) = await fleet.transport.submit([fleet.request(idempotency_key="k")])

    assert not handle.existing


async def test_a_key_lasts_as_long_as_its_task_may_live(make_fleet):
    fleet = await make_fleet(Limits(idempotency_ms=1))
    first = await fleet.submit(idempotency_key="k", deadline_ms=60_000)
    await passed(fleet, ms=3)

    (handle,) = await fleet.transport.submit([fleet.request(idempotency_key="k")])

    assert (handle.task_id, handle.existing) == (first.task_id, True)


@pytest.mark.parametrize("of_batch", [False, True])
async def test_a_key_lasts_as_long_as_the_parent_or_the_batch_that_may_look_for_it(make_fleet, of_batch):
    """A driver that goes on after a restart finds what it has submitted, also where that was meant to be short."""
    fleet = await make_fleet(Limits(idempotency_ms=1))
    shard = fleet.request(idempotency_key="k", deadline_ms=1)
    driver = await fleet.submit(deadline_ms=60_000, trace_id=new_trace_id(near=shard.trace_id))
    mine = {"batch_id": driver.task_id} if of_batch else {"parent_task_id": driver.task_id, "trace_id": driver.trace_id}
    first = shard.model_copy(update=mine)
    await fleet.transport.submit([first])
    await passed(fleet, ms=3)

    (handle,) = await fleet.transport.submit([first.model_copy(update={"task_id": new_task_id()})])

    assert (handle.task_id, handle.existing) == (first.task_id, True)


async def test_a_shard_has_no_more_time_than_its_batch(fleet):
    shard = fleet.request(deadline_ms=60_000)
    batch = await fleet.submit(deadline_ms=5_000, trace_id=new_trace_id(near=shard.trace_id))

    await fleet.transport.submit([shard.model_copy(update={"batch_id": batch.task_id})])

    ends = [(await fleet.transport.record(task.task_id)).expires_at_ms for task in (batch, shard)]
    assert ends[0] == ends[1]


@pytest.mark.parametrize(("kept_days", "longest_days"), [(7, 7), (30, 30), (60, 30), (0.01, 1)])
async def test_a_task_may_take_as_long_as_things_are_kept(make_fleet, kept_days, longest_days):
    fleet = await make_fleet(Limits(retention_ms=int(kept_days * DAY_MS)))
    longest_ms = longest_days * DAY_MS

    request = await fleet.submit(deadline_ms=longest_ms)
    record = await fleet.transport.record(request.task_id)
    too_long = request.model_copy(update={"task_id": new_task_id(), "deadline_ms": longest_ms + 1})
    with pytest.raises(Refused) as refusal:
        await fleet.transport.submit([too_long])

    assert record.expires_at_ms - record.accepted_at_ms == longest_ms
    assert refusal.value.field == "deadline_ms"
    assert f"{longest_days} days" in str(refusal.value)


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


async def test_a_child_lives_in_the_trace_of_its_parent(fleet):
    parent = await fleet.submit()

    with pytest.raises(Refused) as refusal:
        await fleet.transport.submit([fleet.child(parent, trace_id=new_trace_id(near=parent.trace_id))])

    assert refusal.value.field == "trace_id"


@pytest.mark.parametrize("off_ms", [-1_200_000, 1_200_000])
async def test_a_request_from_outside_the_replay_window_is_refused(fleet, off_ms):
    made_at_ms = await fleet.transport.now_ms() + off_ms
    request = fleet.request(created_at_ms=made_at_ms)

    with pytest.raises(Refused) as refusal:
        await fleet.transport.submit([fleet.request(), request])

    assert refusal.value.field == "created_at_ms"
    with pytest.raises(NotFound):
        await fleet.transport.record(request.task_id)


@pytest.mark.parametrize("off_ms", [-300_000, 300_000])
async def test_clocks_that_differ_a_little_are_forgiven(fleet, off_ms):
    made_at_ms = await fleet.transport.now_ms() + off_ms

    await fleet.submit(created_at_ms=made_at_ms)

    assert (await fleet.claim_one()).accepted_at_ms >= made_at_ms - 300_000


async def test_what_was_accepted_may_be_submitted_again_after_the_window(make_fleet):
    fleet = await make_fleet(Limits(replay_window_ms=100))
    request = await fleet.submit(created_at_ms=await fleet.transport.now_ms())
    await fleet.transport.claim("build", "w", slots=1, wait_s=0.2)  # until the window is over

    (handle,) = await fleet.transport.submit([request])

    assert handle.task_id == request.task_id
    with pytest.raises(Refused):
        await fleet.transport.submit([fleet.request(created_at_ms=request.created_at_ms)])


async def test_children_are_a_write_of_their_parents_lease(hasty_fleet):
    fleet = hasty_fleet
    parent = await fleet.submit()
    zombie = await fleet.claim_one("zombie")
    heir = await fleet.claim_one("heir")
    children = [fleet.child(parent), fleet.child(parent)]

    with pytest.raises(Fenced):
        await fleet.transport.submit(children, under=zombie.lease)

    assert await fleet.transport.claim("explore", "w", slots=9, wait_s=0) == []
    assert (await fleet.transport.counters())["fenced_writes"] == 1
    handles = await fleet.transport.submit(children, under=heir.lease)
    assert [handle.task_id for handle in handles] == [child.task_id for child in children]


async def test_a_child_whose_parent_stands_for_nothing_is_refused(fleet):
    """The parent's key was seen before: the task that stands for it is another, and has another id."""
    await fleet.submit(idempotency_key="k")
    parent = fleet.request(idempotency_key="k")

    with pytest.raises(Refused) as refusal:
        await fleet.transport.submit([parent, fleet.child(parent)])

    assert refusal.value.field == "parent_task_id"


async def test_a_request_that_cannot_travel_is_refused_with_its_largest_field_named(fleet):
    with pytest.raises(Refused) as refusal:
        await fleet.submit(input={"prompt": "x" * 2_000_000})

    assert refusal.value.field == "input"


CODE = {"url": "https://host/repository", "base": "a" * 40}
BUNDLES = ["sha256:" + digit * 64 for digit in "12"]


@pytest.mark.parametrize(
    "other",
    [
        {"input": {"prompt": "another"}},
        {"input": {"prompt": "work", "params": {"gate": ["make test"]}}},
        {"agent": "build"},
        {"recipient": "build"},
        {"model": "another"},
        {"workspace": CODE | {"url": "https://host/another"}},
        {"workspace": CODE | {"base": "b" * 40}},
        {"workspace": CODE | {"changes": BUNDLES[0]}},
        {"auth_scope": ("read:**", "edit:**")},
        {"output_schema": {"type": "object"}},
    ],
    ids=lambda other: next(iter(other)),
)
async def test_a_key_that_comes_again_with_other_work_is_refused(fleet, other):
    fields = {"input": {"prompt": "work"}, "workspace": CODE, "auth_scope": ("read:**",), "idempotency_key": "k"}
    first = await fleet.submit(**fields)

    with pytest.raises(Refused) as refusal:
        await fleet.submit(**fields | other)

    assert refusal.value.field == "idempotency_key"
    assert first.task_id in str(refusal.value)
    assert [record.task_id for record in await fleet.transport.tasks()] == [first.task_id]


async def test_one_key_for_two_kinds_of_work_in_one_submission_is_refused_whole(fleet):
    requests = [fleet.request(idempotency_key="k", input={"prompt": prompt}) for prompt in ("one", "two")]

    with pytest.raises(Refused) as refusal:
        await fleet.transport.submit(requests)

    assert refusal.value.field == "idempotency_key"
    assert requests[0].task_id in str(refusal.value)
    assert await fleet.transport.tasks() == []


async def test_the_same_work_joins_whoever_asks_for_it_and_whatever_it_may_take(fleet):
    params = {"repositories": [{"name": "r", "base": "c" * 40, "bundle": BUNDLES[0]}], "roster": [{"agent": "build"}]}
    first = await fleet.submit(
        idempotency_key="k",
        input={"prompt": "work", "params": params},
        workspace={"bundle": BUNDLES[0], "base": "a" * 40, "trusted": "-"},
        auth_scope=("read:**", "edit:**"),
    )

    params = {"repositories": [{"name": "r", "base": "c" * 40, "bundle": BUNDLES[1]}], "roster": []}
    again = fleet.request(
        idempotency_key="k",
        input={"prompt": "work", "params": params},
        workspace={"bundle": BUNDLES[1], "base": "a" * 40},
        auth_scope=("edit:**", "read:**"),
        sender="another",
        deadline_ms=5_000,
        priority="low",
        budget={"max_cost_microusd": 5},
        batch_id="b",
        retry_of=new_task_id(),
        traceparent=f"00-{'1' * 32}-{'2' * 16}-01",
    )
    (handle,) = await fleet.transport.submit([again])

    assert (handle.task_id, handle.existing) == (first.task_id, True)


async def test_a_key_made_of_the_work_is_not_compared_with_it(fleet):
    """A driver that goes on after a crash puts its words together anew, perhaps in a newer version."""
    key = content_key("shard", "a.py")
    first = await fleet.submit(idempotency_key=key, input={"prompt": "work"}, workspace=CODE)

    request = fleet.request(idempotency_key=key, input={"prompt": "newer words"}, workspace=CODE | {"base": "b" * 40})
    (handle,) = await fleet.transport.submit([request])

    assert (handle.task_id, handle.existing) == (first.task_id, True)


async def test_a_shards_key_lasts_where_its_batch_is_not_known(make_redis_fleet):
    """In another cell: its driver may look for it for as long as it is kept."""
    fleet = await make_redis_fleet(Limits(idempotency_ms=1))
    first = await fleet.submit(idempotency_key="k", deadline_ms=1, batch_id=new_task_id())
    await passed(fleet, ms=3)

    (handle,) = await fleet.transport.submit([fleet.request(idempotency_key="k", batch_id=first.batch_id)])

    assert (handle.task_id, handle.existing) == (first.task_id, True)
