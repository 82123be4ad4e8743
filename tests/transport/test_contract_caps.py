"""What every transport promises about caps and weights: of tenants and of traces. Against each implementation."""

from __future__ import annotations

import asyncio

import pytest

from envelope.agents import DRIVERS
from envelope.ids import new_trace_id
from envelope.messages import Priority
from transport.base import Allotment, Wait
from transport.limits import Limits
from transport.redis.script import script

CELLS = 1  # each cell has a line of its own: turns and caps are exact within it


async def claim(fleet, slots: int, *, pool: str = "explore", worker: str = "w"):
    return await fleet.transport.claim(pool, worker, slots=slots, wait_s=0)


async def submit_many(fleet, count: int, **fields) -> str:
    """Root tasks of one trace."""
    trace_id = new_trace_id()
    await fleet.transport.submit([fleet.request(trace_id=trace_id, **fields) for _ in range(count)])
    return trace_id


def tenants_of(claims, tenant_of: dict[str, str]) -> list[str]:
    return [tenant_of[claim.lease.trace_id] for claim in claims]


# -- of tenants


async def test_tenants_start_by_weight(fleet):
    await fleet.transport.allot("gold", Allotment(weight=3.0))
    tenant_of = {await submit_many(fleet, 60, tenant=tenant): tenant for tenant in ("gold", "plain")}

    started = tenants_of(await claim(fleet, 40), tenant_of)

    assert started.count("gold") == pytest.approx(30, abs=1)


async def test_a_weight_below_one_is_a_smaller_share(fleet):
    await fleet.transport.allot("bulk", Allotment(weight=0.25))
    tenant_of = {await submit_many(fleet, 60, tenant=tenant): tenant for tenant in ("bulk", "plain")}

    started = tenants_of(await claim(fleet, 50), tenant_of)

    assert started.count("bulk") == pytest.approx(10, abs=1)


async def test_drivers_do_not_count_for_they_would_hold_back_what_they_wait_for(fleet):
    await fleet.transport.allot("small", Allotment(max_running=1))
    await fleet.transport.submit([fleet.request(tenant="small", recipient=DRIVERS) for _ in range(3)])
    drivers = await fleet.transport.claim(DRIVERS, "d", slots=5, wait_s=0)
    await submit_many(fleet, 2, tenant="small")

    assert len(drivers) == 3
    [working] = await claim(fleet, 20)
    for driver in drivers:
        await fleet.finish(driver)
    assert await claim(fleet, 20) == []
    await fleet.finish(working)
    assert len(await claim(fleet, 20)) == 1


def test_the_scripts_know_the_pool_of_drivers_by_its_name():
    assert f"DRIVERS = '{DRIVERS}'" in script("claim").source


async def test_a_tenant_that_may_run_nothing_has_no_driver_either(fleet):
    await fleet.transport.allot("small", Allotment(max_running=0))
    await fleet.transport.submit([fleet.request(tenant="small", recipient=DRIVERS)])

    assert await fleet.transport.claim(DRIVERS, "d", slots=5, wait_s=0) == []
    await fleet.transport.allot("small", Allotment(max_running=1))
    assert len(await fleet.transport.claim(DRIVERS, "d", slots=5, wait_s=0)) == 1


async def test_a_tenant_never_has_more_running_than_its_cap(fleet):
    await fleet.transport.allot("small", Allotment(max_running=2))
    tenant_of = {await submit_many(fleet, 5, tenant="small"): "small", await submit_many(fleet, 5): "other"}

    first = await claim(fleet, 20)

    assert sorted(tenants_of(first, tenant_of)) == ["other"] * 5 + ["small"] * 2
    assert await claim(fleet, 20) == []
    ending = next(c for c in first if tenant_of[c.lease.trace_id] == "small")
    await fleet.finish(ending)
    assert tenants_of(await claim(fleet, 20), tenant_of) == ["small"]
    assert await claim(fleet, 20) == []


async def test_a_cap_holds_over_all_pools_and_priorities(fleet):
    await fleet.transport.allot("small", Allotment(max_running=3))
    for pool in ("explore", "build"):
        for priority in Priority:
            await submit_many(fleet, 2, tenant="small", recipient=pool, priority=priority)

    assert len(await claim(fleet, 2, pool="build")) == 2
    assert len(await claim(fleet, 9)) == 1
    assert await claim(fleet, 9, pool="build") == []


async def test_whichever_pool_has_a_free_slot_gets_the_place_that_was_freed(fleet):
    await fleet.transport.allot("small", Allotment(max_running=1))
    for pool in ("explore", "build"):
        await submit_many(fleet, 2, tenant="small", recipient=pool)
    (running,) = await claim(fleet, 9)
    assert await claim(fleet, 9) == await claim(fleet, 9, pool="build") == []  # both are held back

    await fleet.finish(running)

    (second,) = await claim(fleet, 9)
    await fleet.finish(second)
    assert len(await claim(fleet, 9, pool="build")) == 1


@pytest.mark.parametrize("leave", ["give_back", "retry", "park", "cancel"])
async def test_who_leaves_frees_its_place_under_the_cap(fleet, leave):
    await fleet.transport.allot("small", Allotment(max_running=1))
    await submit_many(fleet, 1, tenant="small")
    await submit_many(fleet, 1, tenant="small")
    (running,) = await claim(fleet, 9)
    if leave == "give_back":
        await fleet.transport.give_back(running.lease)
    elif leave == "retry":
        await fleet.transport.retry(running.lease, delay_ms=60_000, reason="later")
    elif leave == "park":
        await fleet.transport.park(running.lease, Wait(asks=frozenset({"a"})))
    else:
        await fleet.transport.cancel(running.lease.task_id, by="me", reason="no")
        await fleet.transport.give_back(running.lease)

    assert len(await claim(fleet, 9)) == 1


async def test_a_lost_worker_frees_its_place_under_the_cap(hasty_fleet):
    fleet = hasty_fleet
    await fleet.transport.allot("small", Allotment(max_running=1))
    await submit_many(fleet, 1, tenant="small")
    await submit_many(fleet, 1, tenant="small")
    await claim(fleet, 9, worker="lost")

    assert len(await fleet.transport.claim("explore", "heir", slots=9, wait_s=5)) == 1


async def test_a_waiting_worker_is_woken_when_a_cap_lets_something_start(fleet, monkeypatch):
    monkeypatch.setattr(Limits, "look_ms", 3_600_000)  # it does not look by itself before a lease ends
    await fleet.transport.allot("small", Allotment(max_running=1))
    await submit_many(fleet, 2, tenant="small")
    (running,) = await claim(fleet, 9)
    assert await claim(fleet, 9) == []
    waiting = asyncio.create_task(fleet.claim_one("w2", wait_s=30))
    await asyncio.wait({waiting}, timeout=0.05)

    await fleet.finish(running)

    async with asyncio.timeout(14):
        await waiting


async def test_a_cap_that_is_raised_or_taken_away_lets_more_start(fleet):
    await fleet.transport.allot("small", Allotment(max_running=1))
    for _ in range(6):
        await submit_many(fleet, 1, tenant="small")
    assert len(await claim(fleet, 9)) == 1

    await fleet.transport.allot("small", Allotment(max_running=3))
    assert len(await claim(fleet, 9)) == 2
    await fleet.transport.allot("small", Allotment())
    assert len(await claim(fleet, 9)) == 3


async def test_a_cap_that_is_lowered_stops_nothing_that_runs(fleet):
    await submit_many(fleet, 5, tenant="small")
    running = await claim(fleet, 3)
    await fleet.transport.allot("small", Allotment(max_running=1))

    for ending in running[:2]:
        await fleet.finish(ending)
        assert await claim(fleet, 9) == []
    await fleet.finish(running[2])
    assert len(await claim(fleet, 9)) == 1


async def test_a_flow_that_was_held_back_keeps_its_turn(fleet):
    await fleet.transport.allot("small", Allotment(max_running=1))
    tenant_of = {await submit_many(fleet, 3, tenant="small"): "small", await submit_many(fleet, 20): "other"}
    running = await claim(fleet, 10)  # one of the small one's, nine of the other's
    assert tenants_of(running, tenant_of).count("small") == 1

    await fleet.finish(next(c for c in running if tenant_of[c.lease.trace_id] == "small"))

    assert tenants_of(await claim(fleet, 1), tenant_of) == ["small"]


async def test_a_tenant_that_was_held_back_saves_up_nothing(fleet):
    await fleet.transport.allot("capped", Allotment(max_running=2))
    tenant_of = {await submit_many(fleet, 40, tenant="capped"): "capped", await submit_many(fleet, 400): "other"}
    long = [c for c in await claim(fleet, 4) if tenant_of[c.lease.trace_id] == "capped"]
    await claim(fleet, 300)  # the other one's, all of them: the capped one is at its cap

    for ending in long:
        await fleet.finish(ending)
    started: list[str] = []
    while len(started) < 20:  # each ends before the next starts: the cap holds nobody back any more
        for one in await claim(fleet, 1):
            started += tenants_of([one], tenant_of)
            await fleet.finish(one)

    assert started.count("capped") == pytest.approx(10, abs=1)


async def test_allotments_are_remembered(fleet):
    given = {"a": Allotment(weight=2.5, max_running=7), "b": Allotment()}
    for tenant, allotment in given.items():
        await fleet.transport.allot(tenant, allotment)

    assert await fleet.transport.allotments() == given


# -- of traces


async def wide_tree(make_fleet, children: int, **fields):
    fleet = await make_fleet(Limits(children_per_trace=3))
    root = await fleet.submit()
    parent = await fleet.claim_one("parent")
    requests = [fleet.child(root, **fields) for _ in range(children)]
    await fleet.transport.submit(requests, under=parent.lease)
    return fleet, parent, requests


async def test_no_more_children_of_a_trace_run_at_once_than_allowed(make_fleet):
    fleet, _, _ = await wide_tree(make_fleet, 8)
    bystander = await fleet.submit()

    first = await claim(fleet, 20)

    assert len(first) == 3 + 1
    assert bystander.task_id in {c.lease.task_id for c in first}
    await fleet.finish(next(c for c in first if c.lease.task_id != bystander.task_id))
    assert len(await claim(fleet, 20)) == 1


async def test_priorities_hold_among_the_children_of_a_crowded_trace(make_fleet):
    fleet, parent, _ = await wide_tree(make_fleet, 3)
    running = await claim(fleet, 9)
    root = await fleet.transport.request(parent.lease.task_id)
    late = {priority: [fleet.child(root, priority=priority) for _ in range(10)] for priority in ("normal", "low")}
    await fleet.transport.submit([child for children in late.values() for child in children], under=parent.lease)
    assert await claim(fleet, 9) == []  # both flows stand aside, and their lane with them

    started: list[str] = []
    while len(started) < 10:
        await fleet.finish(running.pop(0))
        for one in await claim(fleet, 9):
            running.append(one)
            started.append(one.lease.task_id)

    normal = {child.task_id for child in late["normal"]}
    assert len(normal.intersection(started)) == pytest.approx(8, abs=1)


async def test_a_pool_that_nobody_serves_any_more_keeps_nothing_of_a_crowded_trace(make_fleet):
    fleet, _, children = await wide_tree(make_fleet, 4)
    running = await claim(fleet, 9)
    await fleet.finish(running[0])  # the fourth comes back into line
    await fleet.transport.cancel(children[3].task_id, by="me", reason="enough")

    order = [fleet.request(tenant="b"), fleet.request(tenant="a")]
    for request in order:
        await fleet.transport.submit([request])

    assert [c.lease.task_id for c in await claim(fleet, 9)] == [request.task_id for request in order]


async def test_children_that_are_parked_leave_their_place(make_fleet):
    fleet, _, _ = await wide_tree(make_fleet, 4)
    running = await claim(fleet, 9)
    await fleet.transport.park(running[0].lease, Wait(asks=frozenset({"a"})))

    assert len(await claim(fleet, 9)) == 1
    await fleet.transport.answer(running[0].lease.task_id, "a", "yes", by="me")
    assert await claim(fleet, 9) == []  # it waits for a place again
    await fleet.finish(running[1])
    assert [c.lease.task_id for c in await claim(fleet, 9)] == [running[0].lease.task_id]


async def test_a_tree_that_is_deeper_than_its_cap_is_wide_comes_to_its_end(make_fleet):
    """Each of five generations waits for the next one, with room for three children at once."""
    fleet = await make_fleet(Limits(children_per_trace=3))
    request = await fleet.submit()
    for _ in range(5):
        claimed = await fleet.claim_one()
        child = fleet.child(request)
        await fleet.transport.submit([child], under=claimed.lease)
        await fleet.transport.park(claimed.lease, Wait(children=frozenset({child.task_id})))
        request = child
    ended = 0
    while claims := await claim(fleet, 1):
        await fleet.finish(claims[0])
        ended += 1

    assert ended == 6


async def test_children_in_several_pools_share_the_traces_places(make_fleet):
    fleet, _, _ = await wide_tree(make_fleet, 3)
    root_id = (await fleet.transport.tasks(limit=1))[0].task_id
    root = await fleet.transport.request(root_id)
    await fleet.transport.submit([fleet.child(root, recipient="build") for _ in range(3)])

    running = await claim(fleet, 2) + await claim(fleet, 9, pool="build")
    assert len(running) == 3
    assert await claim(fleet, 9) == []
    await fleet.finish(running[0])

    assert len(await claim(fleet, 9)) == 1  # the pool that looks first gets the place
    await fleet.finish(running[1])
    assert len(await claim(fleet, 9, pool="build")) == 1
