"""R1: whichever processes are killed, and however often, nothing is lost and nothing happens twice."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from pathlib import Path

import pytest
from lab.checks import violations
from lab.crew import Crew, strike
from lab.figures import report
from lab.fleet import Fleet, MakeFleet
from lab.processes import Nursery
from lab.reader import read_history
from lab.schedule import faults, seeds_at_once
from lab.server import redis_server

pytestmark = [pytest.mark.chaos, pytest.mark.redis]

TASKS = 1_000
WORKERS = 8
KILLS_FOR_S, OVER_S = 60.0, 50.0  # faults go on for some time after the last submission
# How long what is left may take to end after the last fault: a few leases.
QUIET_S = 60.0


@pytest.mark.parametrize("seeds", seeds_at_once(), ids=str)
async def test_random_kills_lose_nothing_and_double_nothing(
    seeds: tuple[int, ...], make_fleet: MakeFleet, nursery: Nursery, folder: Path
) -> None:
    """A fleet with a Redis of its own for each seed; those of even seeds have four cells."""
    async with asyncio.TaskGroup() as runs:
        for seed in seeds:
            runs.create_task(one_run(seed, make_fleet, nursery, folder))


async def one_run(seed: int, make_fleet: MakeFleet, nursery: Nursery, folder: Path) -> None:
    report("R1", seed=seed, begins=True)
    async with redis_server(folder / f"redis-{seed}") as server:
        fleet = replace(make_fleet(url=server.url), cells=1 if seed % 2 else 4)
        async with Crew(nursery, fleet, WORKERS, name=f"run{seed}-w") as crew:
            submitting = asyncio.create_task(submit_tasks(nursery, fleet, seed))
            struck = await strike(crew, faults(seed, WORKERS), KILLS_FOR_S)
            async with asyncio.timeout(QUIET_S):
                await submitting
        history = await read_history(fleet)
    broken = violations(history)
    report("R1", seed=seed, cells=fleet.cells, tasks=len(history.records), faults=struck,
           operations=len(history.ops), violations=len(broken))  # fmt: skip
    assert broken == [], f"replay with MUSTER_CHAOS_SEED={seed}"


async def submit_tasks(nursery: Nursery, fleet: Fleet, seed: int) -> None:
    """Returns when all have ended; the submitter is killed half-way, and its successor begins again."""
    share = {"share": f"run {seed}", "seed": seed, "count": TASKS, "began_ns": time.monotonic_ns(), "over_s": OVER_S}
    first = await nursery.start("submitter", f"run{seed}-s.1", fleet, **share)
    await asyncio.sleep(KILLS_FOR_S / 2)
    first.kill()
    second = await nursery.start("submitter", f"run{seed}-s.2", fleet, **share)
    await second.ended.wait()
