"""R12 and R13: a deadline and a cancellation reach a whole tree, in time, on the server's clock alone."""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
import pytest_asyncio
from lab.checks import violations
from lab.clock import NOTICED_AFTER_S, Clock, faked_clock, missing
from lab.figures import report
from lab.fleet import LIMITS, Fleet, MakeFleet
from lab.job import Habit, Job, request
from lab.processes import Nursery
from lab.processes import nursery as open_nursery
from lab.proxy import proxy_to, silent
from lab.reader import read_history
from lab.schedule import STRICT
from lab.server import Server
from lab.standstill import Standstill
from lab.waiting import results, running

from envelope.lifecycle import State
from transport.limits import GRACE_MS, Limits

pytestmark = [pytest.mark.chaos, pytest.mark.redis]

DEADLINE_MS = 8_000
OVERDUE_AIM_MS = 5_000
FOREVER_MS = 60_000
TEN_MINUTES_S = 600

# Of the tasks of a worker that is cut off, the first half are over their deadlines then, the others are cancelled.
HELD_FOR_MS = (5_000, 5_500, 6_000, 6_500, *4 * (FOREVER_MS,))
HELD, CANCELLED = len(HELD_FOR_MS), 4
QUEUE_AIM_MS = 250  # beyond the grace: somebody looks in the very moment

CHILDREN = 200
CANCEL_AIM_MS = 10_000


def tree(leaf: Job, depth: int) -> Job:
    """Each task has two children and works longer than any deadline here."""
    if depth == 1:
        return leaf
    return Job(turns_ms=(FOREVER_MS,), children=(tree(leaf, depth - 1).plain(),) * 2)


LEAVES = {
    "that listen": Job(turns_ms=(FOREVER_MS,)),
    "that do not listen": Job(habit=Habit.STUBBORN, hold_ms=DEADLINE_MS + 9_000),
}


@pytest.fixture
def clock(folder: Path) -> Clock:
    if reason := missing():
        (pytest.fail if STRICT else pytest.skip)(reason)
    return Clock(folder / "clock")


@pytest_asyncio.fixture
async def timeless(folder: Path, clock: Clock) -> AsyncIterator[Nursery]:
    """Programs whose wall clock a test may set."""
    async with open_nursery(folder / "timeless.log", env=faked_clock(clock)) as found:
        yield found


async def test_a_tree_ends_with_its_deadline_whatever_its_workers_clocks_say(
    make_fleet: MakeFleet, nursery: Nursery, timeless: Nursery, clock: Clock
) -> None:
    """Three levels; one worker's clock jumps ten minutes ahead, and then twenty back, while they run. A fleet for each
    kind of leaves, both at once."""
    fleets = {leaves: make_fleet() for leaves in LEAVES}
    growing = [grown(leaves, fleet, nursery, timeless) for leaves, fleet in fleets.items()]
    trees = dict(zip(fleets, await asyncio.gather(*growing), strict=True))
    clock.jump(TEN_MINUTES_S)
    await asyncio.sleep(1.5 * NOTICED_AFTER_S)
    clock.jump(-TEN_MINUTES_S)

    await asyncio.gather(*(ends_in_time(leaves, fleet, trees[leaves]) for leaves, fleet in fleets.items()))


async def grown(leaves: str, fleet: Fleet, nursery: Nursery, timeless: Nursery) -> str:
    """The trace of a tree of which every task runs, on both workers."""
    right = await nursery.start("worker", f"right, {leaves}", fleet, slots=4)
    skewed = await timeless.start("worker", f"skewed, {leaves}", fleet, slots=4)
    assert await right.is_ready() and await skewed.is_ready()
    root = request(tree(LEAVES[leaves], 3), deadline_ms=DEADLINE_MS)
    async with fleet.connected() as transport:
        await transport.submit([root])
        await running(transport, root.trace_id, 7)
        at = {task.worker for task in await transport.tasks(trace_id=root.trace_id)}
    at.discard("")  # of a task that a standstill has cost its lease
    assert at == {f"right, {leaves}", f"skewed, {leaves}"}
    return root.trace_id


async def ends_in_time(leaves: str, fleet: Fleet, trace_id: str) -> None:
    async with fleet.connected() as transport:
        tasks = await transport.tasks(trace_id=trace_id)
        with Standstill() as still:
            ended = await results(transport, [task.task_id for task in tasks])
        records = await transport.tasks(trace_id=trace_id)
    overdue_ms = {task.task_id: (task.finished_at_ms or 0) - task.expires_at_ms for task in records}
    report("R12", leaves=leaves, tasks=len(records), overdue_max_ms=max(overdue_ms.values()))
    assert {result.status for result in ended.values()} <= {State.EXPIRED, State.CANCELLED}
    assert max(overdue_ms.values()) <= OVERDUE_AIM_MS + still.ms
    assert min(overdue_ms[task_id] for task_id, result in ended.items() if result.status is State.EXPIRED) >= 0
    assert violations(await read_history(fleet)) == []


@pytest.mark.parametrize("near_is", ["idle", "busy"])
async def test_what_a_worker_holds_that_is_cut_off_ends_when_the_grace_is_over(
    make_fleet: MakeFleet, server: Server, nursery: Nursery, near_is: str
) -> None:
    """Only the other worker can end it. With leases as they are by default: the grace is a good part of them."""
    fleet = make_fleet(Limits())
    async with proxy_to(server.port) as proxy, fleet.connected() as transport:
        far = await nursery.start("worker", "far", fleet.through(server.url_of("worker", port=proxy.port)), slots=HELD)
        held = [request(Job(turns_ms=(FOREVER_MS,)), deadline_ms=deadline_ms) for deadline_ms in HELD_FOR_MS]
        await transport.submit(held)
        for each in held:
            await running(transport, each.trace_id, 1)
        await nursery.start("worker", "near", fleet, slots=2 if near_is == "idle" else 1)
        beside = request(Job(turns_ms=(FOREVER_MS,)))
        await transport.submit([beside])
        await running(transport, beside.trace_id, 1)

        with Standstill() as still:
            proxy.weather = silent
            cancelled_at_ms = await transport.now_ms()
            for each in held[CANCELLED:]:
                await transport.cancel(each.task_id, by="test", reason="enough")
            ended = await results(transport, [each.task_id for each in held])
        records = [await transport.record(each.task_id) for each in held]
        far.kill()

    due_ms = [min(record.expires_at_ms, cancelled_at_ms if record.cancel_reason else math.inf) for record in records]
    late_ms = [(record.finished_at_ms or 0) - due for record, due in zip(records, due_ms, strict=True)]
    report("ends", near=near_is, latest_ms=max(late_ms), standstill_ms=still.ms)
    assert Counter(result.status for result in ended.values()) == {State.EXPIRED: CANCELLED, State.CANCELLED: CANCELLED}
    assert max(late_ms) <= GRACE_MS + QUEUE_AIM_MS + still.ms


async def test_cancelling_the_root_of_many_running_children_ends_them_all(
    make_fleet: MakeFleet, nursery: Nursery
) -> None:
    fleet = make_fleet(replace(LIMITS, children_per_trace=CHILDREN))
    transport = await fleet.connect()
    for number in range(4):
        await nursery.start("worker", f"w{number}", fleet, slots=CHILDREN // 4 + 1)
    child = Job(turns_ms=(FOREVER_MS,)).plain()
    root = request(Job(turns_ms=(FOREVER_MS,), children=(child,) * CHILDREN))
    await transport.submit([root])
    await running(transport, root.trace_id, CHILDREN + 1)

    with Standstill() as still:
        cancelled_at_ms = await transport.now_ms()
        alive = await transport.cancel(root.task_id, by="test", reason="enough")
        records = await transport.tasks(trace_id=root.trace_id, limit=CHILDREN + 1)
        ended = await results(transport, [record.task_id for record in records])

    records = await transport.tasks(trace_id=root.trace_id, limit=CHILDREN + 1)
    last_ms = max(record.finished_at_ms or 0 for record in records) - cancelled_at_ms
    report("R13", children=CHILDREN, told=alive, last_ended_after_ms=last_ms)
    await transport.close()
    assert alive == len(ended) == CHILDREN + 1
    assert {result.status for result in ended.values()} == {State.CANCELLED}
    assert last_ms <= CANCEL_AIM_MS + still.ms
    assert violations(await read_history(fleet)) == []
