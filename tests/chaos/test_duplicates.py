"""R9: requests and writes that come twice, and out of order, are done once."""

from __future__ import annotations

import asyncio
import time

import pytest
from lab.checks import violations
from lab.crew import Crew, strike
from lab.figures import report
from lab.fleet import Fleet
from lab.job import Habit, Job, request
from lab.processes import Nursery
from lab.reader import read_history
from lab.schedule import faults, seeds
from lab.waiting import results

from transport.base import Transport

pytestmark = [pytest.mark.chaos, pytest.mark.redis]

TASKS, OVER_S = 100, 3.0
WORKERS = 3


@pytest.mark.parametrize("seed", seeds(1))
async def test_two_submitters_of_the_same_work_have_it_done_once(seed: int, fleet: Fleet, nursery: Nursery) -> None:
    """One sends from first to last, the other from last to first, while workers are killed."""
    share = {"share": f"twice {seed}", "seed": seed, "count": TASKS, "over_s": OVER_S}
    async with Crew(nursery, fleet, WORKERS) as crew:
        began_ns = time.monotonic_ns()
        submitters = [
            await nursery.start("submitter", name, fleet, **share, began_ns=began_ns, backwards=backwards)
            for name, backwards in (("forth", False), ("back", True))
        ]
        await strike(crew, faults(seed, WORKERS), OVER_S)
        async with asyncio.timeout(60):
            for submitter in submitters:
                await submitter.ended.wait()

    history = await read_history(fleet)
    sent = [key for op in history.of("submit") for key in op.asked["keys"]]
    report("R9", seed=seed, requests=len(sent), keys=len(set(sent)), tasks=len(history.records))
    assert len(sent) >= 2 * len(set(sent)) == 2 * TASKS
    assert violations(history) == []


async def test_writes_that_come_twice_are_done_once(fleet: Fleet, transport: Transport, nursery: Nursery) -> None:
    worker = await nursery.start("worker", "w", fleet)
    tasks = [request(Job(habit=Habit.ECHOING, children=(Job(turns_ms=(1,)).plain(),))) for _ in range(10)]
    for _ in range(2):
        await transport.submit(tasks)

    await results(transport, [task.task_id for task in tasks])
    await worker.stop()

    history = await read_history(fleet)
    assert len(history.records) == 2 * len(tasks)
    assert violations(history) == []
