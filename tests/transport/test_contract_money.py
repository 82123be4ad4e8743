"""What every transport promises about a trace's money, held against each implementation."""

from __future__ import annotations

import asyncio

import pytest

from envelope.ids import new_trace_id
from envelope.lifecycle import State
from transport.base import Wait
from transport.errors import Fenced, NotFound, Refused
from transport.money import Ledger
from transport.raising import ask_for_more

CAP = 100


async def capped(fleet, *, children: int = 0):
    """Claims of a root with a cap and of its children, all running."""
    root = await fleet.submit(budget={"max_cost_microusd": CAP})
    await fleet.transport.submit([fleet.child(root) for _ in range(children)])
    return await fleet.transport.claim("explore", "w", slots=1 + children, wait_s=0)


async def ledger(fleet, claim) -> Ledger:
    return await fleet.transport.emit(claim.lease, fleet.progress(claim))


async def test_money_is_set_aside_up_to_the_cap_and_no_further(fleet):
    (claim,) = await capped(fleet)

    assert await fleet.transport.reserve(claim.lease, 60) == Ledger(0, CAP, 60)
    assert await fleet.transport.reserve(claim.lease, 41) is None
    assert await fleet.transport.reserve(claim.lease, 40) == Ledger(0, CAP, 100)
    assert await fleet.transport.reserve(claim.lease, 1) is None


async def test_what_was_spent_counts_against_what_can_be_reserved(fleet):
    (claim,) = await capped(fleet)
    await fleet.transport.emit(claim.lease, fleet.progress(claim), charge_microusd=70)

    assert await fleet.transport.reserve(claim.lease, 31) is None
    assert await fleet.transport.reserve(claim.lease, 30) == Ledger(70, CAP, 30)


async def test_a_charge_frees_what_was_reserved_for_it(fleet):
    (claim,) = await capped(fleet)
    await fleet.transport.reserve(claim.lease, 80)

    after = await fleet.transport.emit(claim.lease, fleet.progress(claim), charge_microusd=25, release_microusd=80)

    assert after == Ledger(25, CAP, 0)


async def test_no_more_is_freed_than_the_attempt_has_reserved(fleet):
    one, two = await capped(fleet, children=1)
    await fleet.transport.reserve(one.lease, 30)
    await fleet.transport.reserve(two.lease, 30)

    after = await fleet.transport.emit(one.lease, fleet.progress(one), release_microusd=1_000)

    assert after.reserved_microusd == 30


async def test_tasks_of_a_trace_share_its_cap(fleet):
    claims = await capped(fleet, children=9)

    granted = await asyncio.gather(*(fleet.transport.reserve(claim.lease, 30) for claim in claims))

    assert sum(grant is not None for grant in granted) == 3


async def test_a_trace_without_a_cap_grants_everything(fleet):
    await fleet.submit()
    claim = await fleet.claim_one()

    assert await fleet.transport.reserve(claim.lease, 10**12) == Ledger(0, None, 10**12)


async def finish(fleet, claim):
    await fleet.finish(claim)


async def fail(fleet, claim):
    await fleet.transport.finish(claim.lease, fleet.result(claim, status=State.ERROR), dead="nobody can do this")


async def give_back(fleet, claim):
    await fleet.transport.give_back(claim.lease)


async def retry(fleet, claim):
    await fleet.transport.retry(claim.lease, delay_ms=0, reason="later")


async def park(fleet, claim):
    assert await fleet.transport.park(claim.lease, Wait(asks=frozenset({"a"})))


async def be_sent_on(fleet, claim):
    await fleet.transport.prompt(claim.lease.task_id, "go on", by="me")
    assert not await fleet.transport.finish(claim.lease, fleet.result(claim))


async def be_cancelled(fleet, claim):
    await fleet.transport.cancel(claim.lease.task_id, by="me", reason="no")
    await fleet.transport.give_back(claim.lease)


@pytest.mark.parametrize("end", [finish, fail, give_back, retry, park, be_sent_on, be_cancelled])
async def test_what_an_attempt_reserved_is_free_again_when_it_ends(fleet, end):
    root, child = await capped(fleet, children=1)
    await fleet.transport.reserve(root.lease, 10)
    await fleet.transport.reserve(child.lease, 90)

    await end(fleet, child)

    assert (await ledger(fleet, root)).reserved_microusd == 10
    assert await fleet.transport.reserve(root.lease, 90)


async def test_what_a_lost_worker_reserved_is_free_again(hasty_fleet):
    fleet = hasty_fleet
    await fleet.submit(budget={"max_cost_microusd": CAP})
    lost = await fleet.claim_one("lost")
    await fleet.transport.reserve(lost.lease, CAP)
    heir = await fleet.claim_one("heir")

    assert await fleet.transport.reserve(heir.lease, CAP) == Ledger(0, CAP, CAP)
    with pytest.raises(Fenced):
        await fleet.transport.reserve(lost.lease, 1)


async def test_what_was_spent_stays_spent(fleet):
    (claim,) = await capped(fleet)
    await fleet.transport.reserve(claim.lease, 50)
    await fleet.transport.emit(claim.lease, fleet.progress(claim), charge_microusd=50, release_microusd=50)
    await fleet.transport.give_back(claim.lease)

    assert await ledger(fleet, await fleet.claim_one()) == Ledger(50, CAP, 0)


async def test_a_race_for_the_last_cent_never_overruns_the_cap(fleet):
    """Sixteen tasks reserve, spend what they reserved, and reserve again until there is nothing left."""
    claims = await capped(fleet, children=15)
    highest: list[int] = []

    async def spend(claim):
        while await fleet.transport.reserve(claim.lease, 3):
            seen = await fleet.transport.emit(claim.lease, fleet.progress(claim), charge_microusd=3, release_microusd=3)
            highest.append(seen.spent_microusd + seen.reserved_microusd)

    await asyncio.gather(*map(spend, claims))

    assert max(highest) <= CAP
    assert (await ledger(fleet, claims[0])) == Ledger(99, CAP, 0)


async def test_a_cap_is_raised_and_never_lowered(fleet):
    (claim,) = await capped(fleet)
    await fleet.transport.emit(claim.lease, fleet.progress(claim), charge_microusd=CAP)
    assert await fleet.transport.reserve(claim.lease, 1) is None

    raised = await fleet.transport.raise_cap(claim.lease.trace_id, CAP + 50, by="me")

    assert raised == Ledger(CAP, CAP + 50)
    assert await fleet.transport.raise_cap(claim.lease.trace_id, 1, by="me") == raised
    assert await fleet.transport.reserve(claim.lease, 51) is None
    assert await fleet.transport.reserve(claim.lease, 50) == Ledger(CAP, CAP + 50, 50)


async def test_a_trace_without_a_cap_gets_none_by_raising_it(fleet):
    request = await fleet.submit()

    assert await fleet.transport.raise_cap(request.trace_id, 5, by="me") == Ledger(0, None)


async def test_the_cap_of_an_unknown_trace_cannot_be_raised(fleet):
    with pytest.raises(NotFound):
        await fleet.transport.raise_cap(new_trace_id(), 5, by="me")


async def test_no_cap_is_raised_to_nonsense(fleet):
    request = await fleet.submit()
    with pytest.raises(Refused):
        await fleet.transport.raise_cap(request.trace_id, -1, by="me")


async def test_who_says_that_a_cap_was_raised_raises_nothing_and_lets_nobody_go_round(fleet):
    """As somebody with a worker's password could: the task wakes once, finds no money, and waits on."""
    (claim,) = await capped(fleet)
    await fleet.transport.emit(claim.lease, fleet.progress(claim), charge_microusd=CAP)
    waits = Wait(asks=frozenset({ask_for_more(CAP)}))
    assert await fleet.transport.park(claim.lease, waits)

    await fleet.transport.answer(claim.lease.task_id, ask_for_more(CAP), "raised", by="alice")
    again = await fleet.claim_one()

    assert await fleet.transport.reserve(again.lease, 1) is None
    assert await fleet.transport.park(again.lease, waits)
    await fleet.transport.raise_cap(claim.lease.trace_id, CAP + 1, by="me")
    assert await fleet.transport.reserve((await fleet.claim_one()).lease, 1)


async def test_who_waits_for_a_higher_cap_goes_on_when_it_is_raised(fleet):
    root, child = await capped(fleet, children=1)
    waits = Wait(asks=frozenset({ask_for_more(CAP)}))
    assert await fleet.transport.park(child.lease, waits)

    await fleet.transport.raise_cap(root.lease.trace_id, CAP + 1, by="me")

    assert (await fleet.transport.record(child.lease.task_id)).state is State.PENDING
    assert not await fleet.transport.park(root.lease, waits)  # it is too late to begin to wait
    assert (await fleet.transport.answers(child.lease.task_id))[ask_for_more(CAP)].by == "me"
    assert await fleet.transport.park(root.lease, Wait(asks=frozenset({ask_for_more(CAP + 1)})))
