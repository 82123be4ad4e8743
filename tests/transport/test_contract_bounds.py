"""What every transport does with values that nobody can mean: their caller hears of it, and nobody else."""

from __future__ import annotations

import asyncio
import math

import pytest

from envelope.errors import ScopeExceeded
from envelope.ids import new_trace_id
from envelope.lifecycle import State
from transport.base import Allotment
from transport.errors import NotFound, QueueFull, Refused
from transport.limits import Limits

ABSURD = 10**17


@pytest.mark.parametrize(
    ("write", "field"),
    [
        (lambda t, lease, _: t.reserve(lease, ABSURD), "amount_microusd"),
        (lambda t, lease, _: t.reserve(lease, -1), "amount_microusd"),
        (lambda t, lease, message: t.emit(lease, message, charge_microusd=1.5), "charge_microusd"),
        (lambda t, lease, message: t.emit(lease, message, release_microusd=-5), "release_microusd"),
        (lambda t, lease, _: t.retry(lease, delay_ms=math.nan, reason="no"), "delay_ms"),
        (lambda t, lease, _: t.checkpoint(lease, "blob", heard=10**18), "heard"),
        (lambda t, lease, _: t.checkpoint(lease, None), "blob"),
    ],
)
async def test_a_value_that_nobody_can_mean_fails_its_caller_alone(fleet, write, field):
    absurd, neighbour = await fleet.submit(), await fleet.submit()
    claims = {claim.lease.task_id: claim for claim in await fleet.transport.claim("explore", "w", slots=2, wait_s=5)}
    claim = claims[absurd.task_id]

    wrong, right = await asyncio.gather(
        write(fleet.transport, claim.lease, fleet.progress(claim)),
        fleet.finish(claims[neighbour.task_id]),
        return_exceptions=True,
    )

    assert isinstance(wrong, Refused) and wrong.field == field
    assert await fleet.ended(neighbour.task_id) == right
    await fleet.finish(claim)  # its task goes on


async def test_of_a_parent_on_record_the_record_counts_not_a_copy_in_the_batch(fleet):
    parent = await fleet.submit(auth_scope=("read:src/**",))
    wider = parent.model_copy(update={"auth_scope": ("bash:**",)})
    elsewhere = parent.model_copy(update={"trace_id": new_trace_id()})

    with pytest.raises(ScopeExceeded):
        await fleet.transport.submit([wider, fleet.child(parent, auth_scope=("bash:**",))])
    with pytest.raises(Refused, match="trace"):
        await fleet.transport.submit([elsewhere, fleet.child(elsewhere)])


async def test_a_long_reason_leaves_a_readable_result(fleet):
    request = await fleet.submit()

    await fleet.transport.cancel(request.task_id, by="me", reason="r" * 2_000_000)

    result = await fleet.ended(request.task_id)
    assert result.status is State.CANCELLED
    assert result.errors[0].message.startswith("rrr") and len(result.errors[0].message) <= 1_000


async def test_a_reason_is_cut_by_what_it_takes_where_it_is_stored(fleet):
    request = await fleet.submit()

    await fleet.transport.cancel(request.task_id, by="me", reason="\x01" * 900)

    assert 100 < len((await fleet.ended(request.task_id)).errors[0].message) <= 1_000 // 6


async def test_words_that_are_too_long_are_refused(fleet):
    request = await fleet.submit()
    await fleet.claim_one()

    with pytest.raises(Refused, match="over the limit"):
        await fleet.transport.prompt(request.task_id, "x" * 5_000_000, by="me")
    with pytest.raises(Refused, match="600002 bytes are over the limit"):
        await fleet.transport.prompt(request.task_id, "\x01" * 100_000, by="me")
    with pytest.raises(Refused, match="bytes are over the limit"):
        await fleet.transport.answer(request.task_id, "a1", "\x01" * 100_000, by="me")


async def test_no_slots_claim_nothing_and_leave_the_books_right(fleet):
    request = await fleet.submit()

    assert await fleet.transport.claim("explore", "w", slots=0, wait_s=0) == []
    assert await fleet.transport.claim("explore", "w", slots=-3, wait_s=0) == []

    (stats,) = await fleet.transport.stats(["explore"])
    assert (stats.ready, stats.running) == (1, 0)
    assert (await fleet.claim_one()).lease.task_id == request.task_id


@pytest.mark.parametrize(
    "allotment",
    [
        Allotment(weight=0),
        Allotment(weight=math.nan),
        Allotment(1, 10**18),
        Allotment(1, -1),
        Allotment(max_queued=-1),
        Allotment(max_tree=10**18),
    ],
)
async def test_a_tenant_cannot_get_what_no_queue_can_give(fleet, allotment):
    with pytest.raises(Refused):
        await fleet.transport.allot("acme", allotment)


async def test_a_result_is_of_the_attempt_that_stores_it(fleet):
    await fleet.submit()
    claim = await fleet.claim_one()
    foreign = fleet.result(claim).model_copy(update={"task_id": fleet.request().task_id})

    with pytest.raises(Refused, match="result"):
        await fleet.transport.finish(claim.lease, foreign)


async def test_what_is_no_trace_is_not_found(fleet):
    with pytest.raises(NotFound):
        await anext(fleet.transport.follow("no-such-trace"))


async def test_a_tree_grows_no_larger_than_its_tenant_may_have_it(fleet):
    """Those that have ended count: their records and their events are kept."""
    await fleet.transport.allot("acme", Allotment(max_tree=3))
    root = await fleet.submit(tenant="acme")
    await fleet.transport.submit([fleet.child(root, tenant="acme")])
    too_much = [fleet.child(root, tenant="acme") for _ in range(2)]

    with pytest.raises(Refused, match="more than 3 tasks") as refused:
        await fleet.transport.submit(too_much)

    assert (refused.value.field, "--max-tree" in refused.value.hint) == ("trace_id", True)
    await fleet.transport.submit(too_much[:1])
    await fleet.transport.submit(too_much[:1])  # nothing new
    await fleet.transport.allot("acme", Allotment(max_tree=4))
    await fleet.transport.submit(too_much)
    assert len(await fleet.transport.tasks(trace_id=root.trace_id)) == 4


async def test_no_task_has_more_above_it_than_a_claim_looks_at(make_fleet):
    fleet = await make_fleet(Limits(max_depth=3))
    chain = [fleet.request()]
    for _ in range(4):
        chain.append(fleet.child(chain[-1]))

    with pytest.raises(Refused, match="more than 3 tasks above it") as refused:
        await fleet.transport.submit(chain)
    assert refused.value.field == "parent_task_id"
    await fleet.transport.submit(chain[:2])
    await fleet.transport.submit(chain[2:4])
    with pytest.raises(Refused, match="more than 3 tasks above it"):
        await fleet.transport.submit(chain[4:])


async def test_a_tenants_line_is_no_longer_than_it_may_be(make_fleet):
    fleet = await make_fleet(Limits(max_queued=3))
    # in one cell
    root = fleet.request()
    requests = [root, *(fleet.child(root) for _ in range(2))]
    await fleet.transport.submit(requests)

    with pytest.raises(QueueFull, match="more than 3 tasks in line") as full:
        await fleet.transport.submit([fleet.child(root)])
    assert (full.value.retry_after_s > 0, "--max-queued" in full.value.hint) == (True, True)

    claim = await fleet.claim_one()
    await fleet.transport.submit([fleet.child(root)])  # what runs does not stand in line
    with pytest.raises(QueueFull):
        await fleet.transport.submit([fleet.child(root)])
    await fleet.transport.give_back(claim.lease)  # what was accepted comes back all the same
    await fleet.transport.cancel(requests[1].task_id, by="me", reason="enough")
    with pytest.raises(QueueFull):
        await fleet.transport.submit([fleet.child(root)])
    await fleet.transport.allot("default", Allotment(max_queued=4))
    await fleet.transport.submit([fleet.child(root)])


async def test_a_large_submission_that_is_too_much_is_refused_before_any_of_it(fleet):
    await fleet.transport.allot("acme", Allotment(max_queued=250))
    root = fleet.request(tenant="acme")
    requests = [root, *(fleet.child(root, tenant="acme") for _ in range(250))]

    with pytest.raises(QueueFull):
        await fleet.transport.submit(requests)

    assert await fleet.transport.tasks(trace_id=root.trace_id) == []
    assert len(await fleet.transport.submit(requests[:250])) == 250
    assert len(await fleet.transport.submit(requests[:250])) == 250  # nothing new


async def test_what_was_accepted_of_a_submission_that_is_refused_later_does_not_run(fleet):
    requests = [fleet.request() for _ in range(250)]
    # known to nobody; in a cell of its own it would be refused before
    trace_id = requests[0].trace_id
    requests = [request.model_copy(update={"trace_id": trace_id}) for request in requests]
    requests[220] = requests[220].model_copy(update={"resume_token": requests[220].task_id})
    keyed = await fleet.submit(trace_id=trace_id)

    with pytest.raises(Refused):
        await fleet.transport.submit([keyed, *requests])

    records = await fleet.transport.tasks(trace_id=trace_id, limit=1_000)
    assert {record.task_id for record in records if record.state is State.PENDING} == {keyed.task_id}
    assert [claim.lease.task_id for claim in await fleet.transport.claim("explore", "w", slots=300, wait_s=0)] == [
        keyed.task_id
    ]


async def test_tasks_that_are_known_already_let_no_others_past_a_bound(fleet):
    await fleet.transport.allot("acme", Allotment(max_queued=150))
    root = fleet.request(tenant="acme")
    known = [root, *(fleet.child(root, tenant="acme") for _ in range(99))]
    await fleet.transport.submit(known)

    with pytest.raises(QueueFull):
        await fleet.transport.submit([*known, *(fleet.child(root, tenant="acme") for _ in range(300))])

    assert len(await fleet.transport.tasks(trace_id=root.trace_id, limit=1_000)) == 100
