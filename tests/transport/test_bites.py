"""Work that is too long for one script is done in bites: trees are stopped, caps are raised, lines are swept.

`Limits.tasks_per_script` is small here, so that a small tree is too large for one script.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import redis.asyncio

from envelope.agents import WorkerCard
from envelope.errors import ErrorCode
from envelope.lifecycle import State
from envelope.messages import TaskRequest, TaskResult
from transport.base import Claim, Wait
from transport.embedded import Server, embedded_redis
from transport.errors import Busy, NotFound, Refused
from transport.keys import CellKeys
from transport.limits import Limits
from transport.raising import TENANTS, ask_for_more, ask_for_more_of_tenant
from transport.redis import RedisTransport
from transport.redis.queue import MAX_STARTS
from transport.redis.script import script

from .conftest import Fleet, MakeFleet, fleets_at

pytestmark = pytest.mark.redis

SMALL = Limits(tasks_per_script=5, bite_every_ms=1)
CAP = 100


@pytest.fixture
async def small_fleet(make_redis_fleet: MakeFleet) -> Fleet:
    return await make_redis_fleet(SMALL)


@pytest.fixture
async def raw(redis_server: Server) -> AsyncIterator[redis.asyncio.Redis]:
    async with redis.asyncio.Redis(unix_socket_path=redis_server.url.removeprefix("unix://")) as client:
        yield client


def key(fleet: Fleet, *parts: str) -> str:
    return CellKeys(fleet.name).name(*parts)


async def first_bite(fleet: Fleet, name: str, **values: object) -> list[int]:
    """A script, and then its caller is gone."""
    assert isinstance(fleet.transport, RedisTransport)
    return await fleet.transport._cells.first.run(name, **values)  # pyright: ignore[reportPrivateUsage]


async def cancel_and_go(fleet: Fleet, task_id: str) -> list[int]:
    return await first_bite(fleet, "cancel", task=task_id, by="me", reason="enough", told="enough")


async def running_tree(fleet: Fleet, *, children: int, below_each: int) -> tuple[Claim, list[TaskRequest]]:
    """A root that runs, and below it in line children with children of their own."""
    root = await fleet.submit(recipient="general")
    claim = await fleet.claim_one("w0", pool="general")
    below = [fleet.child(root) for _ in range(children)]
    below += [fleet.child(child) for child in below for _ in range(below_each)]
    await fleet.transport.submit(below, under=claim.lease)
    return claim, below


async def states(fleet: Fleet, requests: list[TaskRequest]) -> set[State]:
    return {(await fleet.transport.record(request.task_id)).state for request in requests}


async def ends(fleet: Fleet, trace_id: str) -> list[str]:
    """The tasks of a trace that have ended, in the order in which it was told, up to its root."""
    entries = [entry async for entry in fleet.transport.follow(trace_id, wait=False)]
    return [entry.message.task_id for entry in entries if isinstance(entry.message, TaskResult)]


async def test_who_cancels_a_large_tree_stays_to_its_end(small_fleet):
    claim, below = await running_tree(small_fleet, children=30, below_each=2)

    assert await small_fleet.transport.cancel(claim.lease.task_id, by="me", reason="enough") == 91

    assert await states(small_fleet, below) == {State.CANCELLED}
    assert (await small_fleet.transport.stats(["explore"]))[0].ready == 0
    keeper = small_fleet.transport.keeper()
    assert keeper.renew([claim.lease]).cancelled == {claim.lease.task_id: "enough"}
    keeper.close()


async def test_each_ends_once_and_after_those_below_it(small_fleet, raw):
    root = small_fleet.request()
    children = [small_fleet.child(root) for _ in range(12)]
    grandchildren = [small_fleet.child(child) for child in children for _ in range(3)]
    await small_fleet.transport.submit([root, *children, *grandchildren])

    assert await small_fleet.transport.cancel(root.task_id, by="me", reason="enough") == 49

    told = await ends(small_fleet, root.trace_id)
    assert sorted(told) == sorted(each.task_id for each in (root, *children, *grandchildren))
    for request in (*children, *grandchildren):
        assert told.index(request.task_id) < told.index(request.parent_task_id)
    assert not [name async for name in raw.scan_iter(key(small_fleet, "stack", "*"))]
    assert not await raw.exists(key(small_fleet, "chores"))


async def test_an_idle_worker_goes_on_where_the_canceller_has_gone(small_fleet):
    claim, below = await running_tree(small_fleet, children=40, below_each=1)
    await small_fleet.transport.announce(WorkerCard(worker="idle", pool="build", slots=1, agents=()), ttl_s=60)
    waiting = asyncio.create_task(small_fleet.transport.claim("build", "idle", slots=1, wait_s=30))
    await asyncio.sleep(0)

    _, is_open = await cancel_and_go(small_fleet, claim.lease.task_id)

    assert is_open
    results = [result async for result in small_fleet.transport.results([each.task_id for each in below])]
    assert {result.errors[0].code for result in results} == {ErrorCode.CANCELLED}
    await small_fleet.submit(recipient="build")
    assert len(await waiting) == 1


async def test_a_worker_with_no_free_slot_goes_on_with_its_renewals(small_fleet):
    claim, below = await running_tree(small_fleet, children=20, below_each=1)
    await cancel_and_go(small_fleet, claim.lease.task_id)
    keeper = small_fleet.transport.keeper()

    async with asyncio.timeout(30):
        while State.PENDING in await states(small_fleet, below):
            renewal = await asyncio.to_thread(keeper.renew, [claim.lease])
            if State.PENDING in await states(small_fleet, below):
                assert renewal.due_ms is not None and renewal.due_ms <= 1_000

    keeper.close()
    assert await states(small_fleet, below) == {State.CANCELLED}


async def test_nothing_starts_below_a_task_that_is_being_stopped(small_fleet):
    claim, below = await running_tree(small_fleet, children=30, below_each=1)
    other = await small_fleet.submit()

    await cancel_and_go(small_fleet, claim.lease.task_id)
    started = await small_fleet.transport.claim("explore", "w", slots=100, wait_s=0)

    assert [each.lease.task_id for each in started] == [other.task_id]
    with pytest.raises(Refused):
        await small_fleet.transport.submit([small_fleet.child(below[0])])
        await small_fleet.transport.reap()
        await small_fleet.transport.submit([small_fleet.child(below[0])])
    await small_fleet.transport.reap()
    assert await states(small_fleet, below) == {State.CANCELLED}


async def test_what_is_submitted_below_while_the_tree_is_stopped_does_not_escape(small_fleet):
    """By an agent far down, to whom the walk has not come yet."""
    claim, below = await running_tree(small_fleet, children=25, below_each=0)
    (deep,) = await small_fleet.transport.claim("explore", "w1", slots=1, wait_s=5)
    await cancel_and_go(small_fleet, claim.lease.task_id)
    child = small_fleet.request(parent_task_id=deep.lease.task_id, trace_id=deep.lease.trace_id)
    try:
        await small_fleet.transport.submit([child], under=deep.lease)
    except Refused:
        pass
    else:
        below.append(child)
    await small_fleet.transport.reap()

    assert await states(small_fleet, [each for each in below if each.task_id != deep.lease.task_id]) == {
        State.CANCELLED
    }
    keeper = small_fleet.transport.keeper()
    assert keeper.renew([deep.lease]).cancelled == {deep.lease.task_id: "enough"}
    keeper.close()


async def test_a_root_that_finishes_ends_after_all_below_it(small_fleet):
    claim, below = await running_tree(small_fleet, children=30, below_each=1)
    root = claim.lease.task_id
    result = small_fleet.result(claim)

    assert await small_fleet.transport.finish(claim.lease, result)

    assert await small_fleet.transport.result(root) is None
    assert (await small_fleet.transport.record(root)).state is State.RUNNING
    assert (await small_fleet.transport.stats(["general"]))[0].running == 0  # its slot is free
    assert await small_fleet.transport.finish(claim.lease, result)  # its answer was lost
    keeper = small_fleet.transport.keeper()
    assert keeper.renew([claim.lease]).lost == {root}
    keeper.close()
    assert await small_fleet.transport.cancel(root, by="me", reason="too late") >= 0
    await small_fleet.transport.reap()
    assert await small_fleet.transport.result(root) == result
    told = await ends(small_fleet, claim.lease.trace_id)
    assert (len(told), told[-1]) == (61, root)
    assert await states(small_fleet, below) == {State.CANCELLED}


async def test_a_session_is_busy_until_its_task_has_ended(small_fleet):
    claim, _ = await running_tree(small_fleet, children=30, below_each=0)
    await small_fleet.transport.checkpoint(claim.lease, "sha256:" + "0" * 64)
    await small_fleet.transport.finish(claim.lease, small_fleet.result(claim))
    follow_up = small_fleet.request(resume_token=claim.lease.task_id)

    with pytest.raises(Busy):
        await small_fleet.transport.submit([follow_up])
    with pytest.raises(NotFound):
        await small_fleet.transport.prompt(claim.lease.task_id, "one more word", by="me")
    await small_fleet.transport.reap()

    await small_fleet.transport.submit([follow_up])


async def test_a_parent_waits_until_the_large_tree_of_its_child_has_ended(small_fleet):
    parent = await small_fleet.submit(recipient="general")
    waits = await small_fleet.claim_one(pool="general")
    child = small_fleet.child(parent, recipient="build")
    await small_fleet.transport.submit([child], under=waits.lease)
    works = await small_fleet.claim_one(pool="build")
    await small_fleet.transport.submit([small_fleet.child(child) for _ in range(30)], under=works.lease)
    assert await small_fleet.transport.park(waits.lease, Wait(frozenset({child.task_id})))

    await small_fleet.transport.finish(works.lease, small_fleet.result(works))

    assert (await small_fleet.transport.record(parent.task_id)).state is State.WAITING
    await small_fleet.transport.reap()
    assert (await small_fleet.transport.record(parent.task_id)).state is State.PENDING


async def test_a_large_tree_that_expires_ends_within_its_grace(make_redis_fleet):
    fleet = await make_redis_fleet(Limits(lease_ms=300, tasks_per_script=5, bite_every_ms=1))
    root = fleet.request(deadline_ms=300)
    children = [fleet.child(root) for _ in range(40)]
    await fleet.transport.submit([root, *children])

    waiting = asyncio.create_task(fleet.transport.claim("build", "idle", slots=1, wait_s=30))
    results = [result async for result in fleet.transport.results([each.task_id for each in (root, *children)])]

    assert {result.status for result in results} <= {State.EXPIRED, State.CANCELLED}
    waiting.cancel()


async def test_a_small_tree_is_not_kept_waiting_by_a_large_one(small_fleet):
    large, below_large = await running_tree(small_fleet, children=200, below_each=0)
    small = small_fleet.request(tenant="other")
    below_small = [small_fleet.child(small, tenant="other") for _ in range(12)]
    await small_fleet.transport.submit([small, *below_small])
    await cancel_and_go(small_fleet, large.lease.task_id)

    await small_fleet.transport.cancel(small.task_id, by="me", reason="enough")

    assert await states(small_fleet, [small, *below_small]) == {State.CANCELLED}
    assert State.PENDING in await states(small_fleet, below_large)


async def test_two_who_cancel_one_tree_hear_the_same(small_fleet):
    claim, _ = await running_tree(small_fleet, children=30, below_each=1)

    async with asyncio.TaskGroup() as group:
        both = [group.create_task(small_fleet.transport.cancel(claim.lease.task_id, by="me", reason="x")) for _ in "ab"]

    assert [each.result() for each in both] == [61, 61]


@pytest.mark.parametrize("children", [4, 5, 6, 7, 12])
async def test_who_cancels_hears_of_those_whom_the_end_of_their_root_has_stopped(small_fleet, children: int):
    """The root's worker hears of it at the first bite, and may be quicker than the second."""
    claim, _ = await running_tree(small_fleet, children=children, below_each=0)
    root = claim.lease.task_id
    stopped, is_open = await cancel_and_go(small_fleet, root)
    await small_fleet.finish(claim)

    while is_open:
        _, is_open, stopped = await first_bite(small_fleet, "chores", task=root)

    assert stopped == children + 1


@pytest.mark.parametrize("bites", [0, 1, 2, 3, 8])
async def test_who_cancels_hears_of_each_running_task_once(small_fleet, bites: int):
    """The end of the root looks at all that still run below it, and its bites are a chore of the same name."""
    claim, below = await running_tree(small_fleet, children=12, below_each=0)
    assert len(await small_fleet.transport.claim("explore", "w1", slots=12, wait_s=5)) == len(below)
    root = claim.lease.task_id
    stopped, is_open = await cancel_and_go(small_fleet, root)
    for _ in range(bites):
        await first_bite(small_fleet, "chores", task=root)
        await asyncio.sleep(0.002)  # bites are apart by a millisecond of the server's clock
    await small_fleet.finish(claim)

    while is_open:
        _, is_open, stopped = await first_bite(small_fleet, "chores", task=root)

    assert stopped == len(below) + 1
    assert await small_fleet.transport.cancel(root, by="me", reason="once more") == 0


async def test_a_tree_that_is_half_stopped_survives_its_server(tmp_path: Path):
    """Chores are data: what one server began, the next one has."""
    async with embedded_redis(tmp_path) as server:
        async with fleets_at(server.url) as make:
            fleet = await make(SMALL, "crash")
            claim, below = await running_tree(fleet, children=40, below_each=0)
            await cancel_and_go(fleet, claim.lease.task_id)
        os.kill(server.pid, signal.SIGKILL)
    async with embedded_redis(tmp_path) as server, fleets_at(server.url) as make:
        fleet = await make(SMALL, "crash")
        assert await states(fleet, below) == {State.CANCELLED, State.PENDING}

        await fleet.transport.reap()

        assert await states(fleet, below) == {State.CANCELLED}


async def test_what_somebody_has_spoilt_below_stops_neither_the_tree_nor_a_claim(small_fleet, raw):
    claim, below = await running_tree(small_fleet, children=20, below_each=1)
    spoilt, other = below[3], await small_fleet.submit(recipient="build")
    await raw.set(key(small_fleet, "children", spoilt.task_id), "junk")
    await raw.hset(key(small_fleet, "task", below[7].task_id), "attempt", "x")

    await cancel_and_go(small_fleet, claim.lease.task_id)
    assert len(await small_fleet.transport.claim("build", "w", slots=1, wait_s=0)) == 1
    await small_fleet.transport.reap()

    lost = {each.task_id for each in below if each.parent_task_id in (spoilt.task_id, below[7].task_id)}
    lost.add(below[7].task_id)
    assert await states(small_fleet, [each for each in below if each.task_id not in lost]) == {State.CANCELLED}
    assert other.task_id


async def test_a_chore_that_somebody_has_spoilt_is_dropped_and_what_it_left_closing_ends(small_fleet, raw):
    claim, _ = await running_tree(small_fleet, children=20, below_each=1)
    other = await small_fleet.submit(recipient="build")
    await cancel_and_go(small_fleet, claim.lease.task_id)
    await raw.rpush(key(small_fleet, "stack", claim.lease.task_id), "junk")

    for _ in range(3):
        await small_fleet.transport.reap()
    claims = await small_fleet.transport.claim("build", "w", slots=100, wait_s=5)

    assert other.task_id in {one.lease.task_id for one in claims}
    assert (await small_fleet.transport.counters())["chores_dropped"] >= 1
    assert await raw.exists(key(small_fleet, "chores")) == 0


async def test_a_task_that_is_left_closing_is_ended_by_its_deadline(small_fleet, raw):
    claim, _ = await running_tree(small_fleet, children=20, below_each=1)
    root = claim.lease.task_id
    await small_fleet.finish(claim)
    assert await raw.hget(key(small_fleet, "task", root), "state") == b"closing"
    lost = (("chores",), ("chores", "default"), ("stack", root), ("chore", f"stop.{root}"))
    await raw.delete(*(key(small_fleet, *name) for name in lost))

    await raw.zadd(key(small_fleet, "deadlines"), {root: 1})
    async with asyncio.timeout(20):
        while (await small_fleet.transport.record(root)).state is State.RUNNING:
            await small_fleet.transport.reap()
    assert (await small_fleet.transport.result(root)).status is State.COMPLETED


@pytest.mark.parametrize("whose", ["trace", "tenant"])
async def test_many_who_wait_at_a_cap_go_on_in_bites(small_fleet, whose):
    fleet = small_fleet
    root = fleet.request(tenant="ann")
    requests = [root, *(fleet.request(tenant="ann", trace_id=root.trace_id) for _ in range(29))]
    requests[0] = root = root.model_copy(update={"budget": root.budget.model_copy(update={"max_cost_microusd": CAP})})
    await fleet.transport.submit(requests)
    await fleet.transport.fund("ann", CAP, by="test")
    ask = ask_for_more(CAP) if whose == "trace" else ask_for_more_of_tenant(CAP)
    claims = await fleet.transport.claim("explore", "w", slots=30, wait_s=5)
    for claim in claims[:-1]:
        assert await fleet.transport.park(claim.lease, Wait(asks=frozenset({ask})))

    if whose == "trace":
        await fleet.transport.raise_cap(root.trace_id, 2 * CAP, by="me")
    else:
        await fleet.transport.fund("ann", 2 * CAP, by="me")

    assert not await fleet.transport.park(claims[-1].lease, Wait(asks=frozenset({ask})))  # it is too late to wait
    await fleet.transport.reap()
    found = {(await fleet.transport.record(claim.lease.task_id)).state for claim in claims[:-1]}
    assert found == {State.PENDING}
    assert (await fleet.transport.answers(claims[3].lease.task_id))[ask].by == "me"


@pytest.mark.parametrize("whose", ["trace", "tenant"])
async def test_who_does_not_wait_for_money_is_not_listed_as_waiting(redis_fleet, raw, whose):
    """Nobody would take it off the list: a task that was stopped meanwhile, and one that a prompt has reached."""
    fleet = redis_fleet
    await fleet.transport.fund("default", CAP, by="test")
    ask = frozenset({ask_for_more(CAP) if whose == "trace" else ask_for_more_of_tenant(CAP)})
    budget = fleet.request().budget.model_copy(update={"max_cost_microusd": CAP})
    stopped, prompted = await fleet.submit(budget=budget), await fleet.submit(budget=budget)
    claims = await fleet.transport.claim("explore", "w", slots=2, wait_s=5)
    leases = {claim.lease.task_id: claim.lease for claim in claims}
    await fleet.transport.cancel(stopped.task_id, by="me", reason="enough")
    await fleet.transport.prompt(prompted.task_id, "one more word", by="me")

    await fleet.transport.park(leases[stopped.task_id], Wait(asks=ask))
    assert not await fleet.transport.park(leases[prompted.task_id], Wait(asks=ask, first=True))

    assert (await fleet.transport.record(stopped.task_id)).state is State.CANCELLED
    assert [name for kind in ("short", "capped") async for name in raw.scan_iter(key(fleet, f"{kind}:*"))] == []


@pytest.mark.parametrize("whose", ["trace", "tenant"])
async def test_who_waits_for_something_else_alone_is_not_listed_as_waiting_for_money(redis_fleet, raw, whose):
    fleet = redis_fleet
    await fleet.transport.fund("default", CAP, by="test")
    ask = ask_for_more(CAP) if whose == "trace" else ask_for_more_of_tenant(CAP)
    task = await fleet.submit(budget=fleet.request().budget.model_copy(update={"max_cost_microusd": CAP}))
    await fleet.transport.park((await fleet.claim_one()).lease, Wait(asks=frozenset({ask, "a question"})))

    await fleet.transport.answer(task.task_id, ask, "raised elsewhere", by="me")

    assert (await fleet.transport.record(task.task_id)).waits_for == ("a question",)
    assert [name for kind in ("short", "capped") async for name in raw.scan_iter(key(fleet, f"{kind}:*"))] == []


@pytest.mark.parametrize("whose", ["trace", "tenant"])
async def test_who_held_its_lease_for_money_and_then_parks_goes_on_when_the_cap_is_raised(redis_fleet, whose):
    fleet = redis_fleet
    await fleet.transport.fund("default", CAP, by="test")
    ask = ask_for_more(CAP) if whose == "trace" else ask_for_more_of_tenant(CAP)
    task = await fleet.submit(budget=fleet.request().budget.model_copy(update={"max_cost_microusd": CAP}))
    lease = (await fleet.claim_one()).lease
    await fleet.transport.hold(lease, frozenset({ask}))
    assert await fleet.transport.park(lease, Wait(asks=frozenset({ask})))

    if whose == "trace":
        await fleet.transport.raise_cap(task.trace_id, 2 * CAP, by="me")
    else:
        await fleet.transport.fund("default", 2 * CAP, by="me")

    assert (await fleet.transport.record(task.task_id)).state is State.PENDING


async def test_a_line_of_ended_tasks_is_swept_in_bites(small_fleet, raw):
    """In a pool that nobody serves."""
    requests = [small_fleet.request(tenant=f"t{n % 7}", recipient="build") for n in range(60)]
    await small_fleet.transport.submit(requests)
    for request in requests:
        await small_fleet.transport.cancel(request.task_id, by="me", reason="enough")

    await small_fleet.transport.reap()

    lines = [name async for name in raw.scan_iter(key(small_fleet, "flow*"))]
    assert (lines, await raw.exists(key(small_fleet, "lanes", "build"))) == ([], 0)
    assert not await raw.exists(key(small_fleet, "queued"))
    again = await small_fleet.submit(recipient="build")
    assert (await small_fleet.claim_one(pool="build")).lease.task_id == again.task_id


async def test_one_tenants_ended_tasks_do_not_keep_another_waiting(redis_fleet):
    fleet = redis_fleet
    root = await fleet.submit(tenant="bad", recipient="general")
    claim = await fleet.claim_one(pool="general")
    for _ in range(3):
        await fleet.transport.submit([fleet.child(root, tenant="bad") for _ in range(1_000)], under=claim.lease)
    left = await fleet.submit(tenant="bad", priority="low")
    await fleet.transport.cancel(root.task_id, by="me", reason="enough")
    good = await fleet.submit(tenant="good")

    (first,) = await fleet.transport.claim("explore", "w", slots=1, wait_s=0)

    assert first.lease.task_id == good.task_id
    async with asyncio.timeout(30):
        while not (claims := await fleet.transport.claim("explore", "w", slots=1, wait_s=0)):
            pass
    assert [each.lease.task_id for each in claims] == [left.task_id]


def test_a_claim_starts_as_many_as_its_caller_thinks():
    assert f"MAX_STARTS, MAX_VISITS, MAX_STALE = {MAX_STARTS}," in script("claim").source


async def test_who_has_more_slots_than_one_claim_fills_gets_them_filled(redis_fleet):
    await redis_fleet.transport.submit([redis_fleet.request() for _ in range(450)])

    claims = await redis_fleet.transport.claim("explore", "w", slots=430, wait_s=0)

    assert len({claim.lease.task_id for claim in claims}) == 430


def test_the_scripts_know_an_ask_for_a_traces_money_by_its_name():
    assert f"TRACES_CAP = '{ask_for_more(7).removesuffix('7')}'" in script("write").source
    assert not TENANTS.startswith(ask_for_more(7).removesuffix("7"))
