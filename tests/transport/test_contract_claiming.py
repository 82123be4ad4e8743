"""What every transport promises about claiming, held against each implementation. Time is the store's own."""

from __future__ import annotations

import asyncio

from envelope.ids import new_trace_id
from transport.base import Lease
from transport.limits import Limits

NEVER_S = 3_600.0


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


async def test_a_waiting_worker_is_woken_by_a_submission(fleet, monkeypatch):
    monkeypatch.setattr(Limits, "look_ms", NEVER_S * 1000)  # it does not look by itself
    waiting = asyncio.create_task(fleet.claim_one(wait_s=NEVER_S))
    await asyncio.wait({waiting}, timeout=0.05)  # let it come to its wait
    request = await fleet.submit()

    async with asyncio.timeout(60):
        claim = await waiting

    assert claim.lease.task_id == request.task_id


async def test_every_waiting_worker_is_woken_when_there_is_work_for_all(fleet, monkeypatch):
    monkeypatch.setattr(Limits, "look_ms", NEVER_S * 1000)
    waiting = [asyncio.create_task(fleet.claim_one(f"w{n}", wait_s=NEVER_S)) for n in range(5)]
    await asyncio.wait(waiting, timeout=0.05)

    await fleet.transport.submit([fleet.request() for _ in range(5)])

    async with asyncio.timeout(60):
        claims = await asyncio.gather(*waiting)
    assert len({claim.lease.task_id for claim in claims}) == 5


async def test_a_claim_that_waits_ends_at_once_when_it_is_cancelled(fleet, monkeypatch):
    monkeypatch.setattr(Limits, "look_ms", NEVER_S * 1000)
    for _ in range(2):  # the second does not look before it waits
        waiting = asyncio.create_task(fleet.transport.claim("explore", "w", slots=1, wait_s=NEVER_S))
        await asyncio.wait({waiting}, timeout=0.05)

        waiting.cancel()
        async with asyncio.timeout(60):
            await asyncio.wait({waiting})

        assert waiting.cancelled()
    request = await fleet.submit()
    assert (await fleet.claim_one(wait_s=0)).lease == Lease(request.task_id, request.trace_id, "explore", "w1", 1)


async def test_a_ring_starts_as_many_as_there_are_slots(fleet, monkeypatch):
    monkeypatch.setattr(Limits, "look_ms", NEVER_S * 1000)
    waiting = asyncio.create_task(fleet.transport.claim("explore", "w", slots=20, wait_s=NEVER_S))
    await asyncio.wait({waiting}, timeout=0.05)

    trace = new_trace_id()  # in one cell
    requests = [fleet.request(trace_id=trace) for _ in range(25)]
    await fleet.transport.submit(requests)

    async with asyncio.timeout(60):
        claims = await waiting
        claims += await fleet.transport.claim("explore", "w", slots=20, wait_s=NEVER_S)
    assert [claim.lease.task_id for claim in claims] == [request.task_id for request in requests]


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
