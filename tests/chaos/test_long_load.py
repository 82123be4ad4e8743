"""R24: a mixed load with faults, for long: nothing is lost, and a worker that lives through it all does not grow."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass

import pytest
from lab.checks import violations
from lab.crew import Crew, strike
from lab.figures import report, slope
from lab.fleet import Fleet
from lab.processes import Nursery, Program
from lab.reader import read_history
from lab.schedule import SOAK, faults, seeds
from lab.server import Server

pytestmark = [pytest.mark.chaos, pytest.mark.redis]

FOR_S = 1_800.0 if SOAK else 15.0
TASKS_PER_S, WORKERS, REST_S = 5, 4, 1.0
RESTART_EVERY_S, LOOK_EVERY_S = FOR_S / 5, FOR_S / 60
# The first fifth is for caches and pools to fill.
WARM_UP_SHARE = 0.2
GROWTH_AIM_BYTES_PER_MIN = 1024 * 1024
# Connections come and go with what is under way.
SPARE_FILES = 8
QUIET_S = 120.0


@dataclass(frozen=True, slots=True)
class Look:
    at_min: float
    rss_bytes: int
    open_files: int


@pytest.mark.timeout(FOR_S + 300)
@pytest.mark.parametrize("seed", seeds(1))
async def test_a_long_mixed_load_loses_nothing_and_leaks_nothing(
    seed: int, fleet: Fleet, nursery: Nursery, server: Server
) -> None:
    steady = await nursery.start("worker", "steady", fleet)
    count = int(FOR_S * TASKS_PER_S)
    share = {"share": f"long {seed}", "seed": seed, "count": count, "over_s": FOR_S, "began_ns": time.monotonic_ns()}
    submitter = await nursery.start("submitter", "s.1", fleet, **share)
    async with Crew(nursery, fleet, WORKERS) as crew:
        async with asyncio.TaskGroup() as faulty:
            looking = faulty.create_task(look_at(steady, submitter))
            faulty.create_task(strike(crew, faults(seed, WORKERS), FOR_S, rest_s=REST_S))
            faulty.create_task(restart(server))
        async with asyncio.timeout(QUIET_S):
            await submitter.ended.wait()
    await steady.stop()

    history, looks = await read_history(fleet), looking.result()
    growth = slope([(look.at_min, look.rss_bytes) for look in looks])
    report("R24", seed=seed, for_s=FOR_S, tasks=len(history.records), rss_growth_bytes_per_min=round(growth),
           open_files=[looks[0].open_files, max(look.open_files for look in looks)])  # fmt: skip
    assert violations(history) == []
    assert max(look.open_files for look in looks) <= looks[0].open_files + SPARE_FILES
    if SOAK:  # a quarter of a minute says nothing about a slope
        assert growth < GROWTH_AIM_BYTES_PER_MIN


async def restart(server: Server) -> None:
    """A few times, at regular moments."""
    for _ in range(int(FOR_S / RESTART_EVERY_S) - 1):
        await asyncio.sleep(RESTART_EVERY_S)
        await server.kill()
        await server.start()


async def look_at(worker: Program, submitter: Program) -> list[Look]:
    """From the end of the warm-up to the end of the load."""
    loop = asyncio.get_running_loop()
    began_s, looks = loop.time(), []
    await asyncio.sleep(FOR_S * WARM_UP_SHARE)
    while loop.time() < began_s + FOR_S and not submitter.ended.is_set():
        looks.append(Look((loop.time() - began_s) / 60, worker.rss_bytes(), worker.open_files()))
        await asyncio.sleep(LOOK_EVERY_S)
    return looks
