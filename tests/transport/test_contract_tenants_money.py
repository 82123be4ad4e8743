"""What every transport promises about a tenant's money, held against each implementation."""

from __future__ import annotations

import asyncio

from envelope.lifecycle import State
from transport.base import Wait
from transport.money import Ledger
from transport.raising import TENANTS, ask_for_more_of_tenant
from transport.redis.script import script

CAP = 100
CELLS = 1  # several get equal parts of a cap: test_servers_cluster.py


async def running(fleet, *, tenant: str = "ann", cap: int | None = None):
    """A claimed root, in a trace of its own."""
    await fleet.submit(tenant=tenant, budget={"max_cost_microusd": cap})
    return await fleet.claim_one()


async def short(fleet, claim, cap: int = CAP) -> bool:
    """Has the task parked, to wait for more than this cap?"""
    return await fleet.transport.park(claim.lease, Wait(asks=frozenset({ask_for_more_of_tenant(cap)})))


async def test_all_traces_of_a_tenant_share_its_cap_and_others_do_not(fleet):
    one, two, other = await running(fleet), await running(fleet), await running(fleet, tenant="bob")
    await fleet.transport.fund("ann", CAP, by="test")

    granted = await asyncio.gather(*(fleet.transport.reserve(claim.lease, 60) for claim in (one, two, other)))

    assert sum(grant is not None for grant in granted[:2]) == 1
    assert granted[2] == Ledger(0, None, 60)
    assert await fleet.transport.funds("ann") == Ledger(0, CAP, 60)
    assert await fleet.transport.funds("bob") == Ledger(0, None, 60)


async def test_a_trace_is_bound_by_the_tighter_of_both_caps(fleet):
    claim = await running(fleet, cap=50)
    await fleet.transport.fund("ann", CAP, by="test")

    assert await fleet.transport.reserve(claim.lease, 51) is None
    granted = await fleet.transport.reserve(claim.lease, 50)

    assert granted == Ledger(0, 50, 50, Ledger(0, CAP, 50))
    assert granted.tightest is granted


async def test_what_is_charged_released_and_left_behind_is_the_tenants_too(fleet):
    claim = await running(fleet)
    await fleet.transport.fund("ann", CAP, by="test")
    await fleet.transport.reserve(claim.lease, 80)

    told = await fleet.transport.emit(claim.lease, fleet.progress(claim), charge_microusd=30, release_microusd=60)
    await fleet.transport.give_back(claim.lease)

    assert (told.tenant, told.tightest) == (Ledger(30, CAP, 20), Ledger(30, CAP, 20))
    assert await fleet.transport.funds("ann") == Ledger(30, CAP, 0)
    assert await fleet.transport.ledger(claim.lease.trace_id) == Ledger(30, None, 0)


async def test_who_waits_for_a_tenants_money_goes_on_when_there_is_more(fleet):
    claims = [await running(fleet) for _ in range(3)]
    await fleet.transport.fund("ann", CAP, by="test")
    assert [await short(fleet, claim) for claim in claims[:2]] == [True, True]
    await fleet.transport.fund("ann", CAP // 2, by="test")
    lower = [(await fleet.transport.record(claim.lease.task_id)).state for claim in claims]
    assert await short(fleet, claims[2], CAP // 2)

    money = await fleet.transport.fund("ann", CAP * 2, by="somebody")

    assert lower == [State.WAITING, State.WAITING, State.RUNNING]
    assert money == Ledger(0, CAP * 2, 0)
    records = [await fleet.transport.record(claim.lease.task_id) for claim in claims]
    assert [(record.state, record.waits_for) for record in records] == [(State.PENDING, ())] * 3
    [answered] = (await fleet.transport.answers(claims[0].lease.task_id)).items()
    assert (answered[0], answered[1].by) == (ask_for_more_of_tenant(CAP), "somebody")


async def test_a_cap_that_is_lifted_wakes_all_and_one_that_was_raised_meanwhile_is_not_waited_for(fleet):
    one, two = await running(fleet), await running(fleet)
    await fleet.transport.fund("ann", CAP, by="test")
    assert await short(fleet, one)
    await fleet.transport.fund("ann", None, by="test")

    assert (await fleet.transport.record(one.lease.task_id)).state is State.PENDING
    assert not await short(fleet, two)
    assert await fleet.transport.reserve(two.lease, 10**12) == Ledger(0, None, 10**12)


async def test_a_task_may_wait_for_the_same_cap_again(fleet):
    await fleet.transport.fund("ann", CAP, by="test")
    claim = await running(fleet)
    assert await short(fleet, claim)
    await fleet.transport.fund("ann", CAP + 1, by="test")
    await fleet.transport.fund("ann", CAP, by="test")
    again = await fleet.claim_one()
    assert await short(fleet, again)

    await fleet.transport.fund("ann", CAP + 1, by="test")

    assert (await fleet.transport.record(again.lease.task_id)).state is State.PENDING


async def test_who_waits_with_its_slot_goes_on_when_its_tenant_has_more(fleet):
    await fleet.transport.fund("ann", CAP, by="test")
    claim = await running(fleet)
    await fleet.transport.hold(claim.lease, frozenset({ask_for_more_of_tenant(CAP)}))
    assert (await fleet.transport.record(claim.lease.task_id)).state is State.WAITING

    await fleet.transport.fund("ann", CAP + 1, by="test")

    assert (await fleet.transport.record(claim.lease.task_id)).state is State.RUNNING
    await fleet.transport.hold(claim.lease, frozenset({ask_for_more_of_tenant(CAP)}))
    assert (await fleet.transport.record(claim.lease.task_id)).state is State.RUNNING


async def test_nothing_is_known_of_a_tenant_that_never_was(fleet):
    assert await fleet.transport.funds("nobody") == Ledger(0, None, 0)


def test_the_scripts_know_an_ask_for_a_tenants_money_by_its_name():
    assert f"TENANTS_CAP = '{TENANTS}'" in script("write").source
