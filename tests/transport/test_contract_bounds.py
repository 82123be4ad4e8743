"""What every transport does with values that nobody can mean: their caller hears of it, and nobody else."""

from __future__ import annotations

import asyncio
import math

import pytest

from envelope.errors import ScopeExceeded
from envelope.ids import new_trace_id
from envelope.lifecycle import State
from transport.base import Allotment
from transport.errors import NotFound, Refused

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


async def test_words_that_are_too_long_are_refused(fleet):
    request = await fleet.submit()
    await fleet.claim_one()

    with pytest.raises(Refused, match="over the limit"):
        await fleet.transport.prompt(request.task_id, "x" * 5_000_000, by="me")


async def test_no_slots_claim_nothing_and_leave_the_books_right(fleet):
    request = await fleet.submit()

    assert await fleet.transport.claim("explore", "w", slots=0, wait_s=0) == []
    assert await fleet.transport.claim("explore", "w", slots=-3, wait_s=0) == []

    (stats,) = await fleet.transport.stats(["explore"])
    assert (stats.ready, stats.running) == (1, 0)
    assert (await fleet.claim_one()).lease.task_id == request.task_id


@pytest.mark.parametrize(
    "allotment", [Allotment(weight=0), Allotment(weight=math.nan), Allotment(1, 10**18), Allotment(1, -1)]
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
