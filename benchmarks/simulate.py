"""What a thousand workers would do with a million tasks: predicted from costs that are measured first, on this machine.

    python -m benchmarks.simulate [--quick] [--json FILE]

1. Measures what a task, a turn and a worker's being there cost a worker and Redis (real ones, and a scripted model).
2. Checks the simulator (`benchmarks.simulation`) against real runs of a small fleet: predicted beside measured.
3. Predicts fleets that fit on no desk. There Redis and each worker have a core of their own, and models, sandboxes and
   the network are as fast as `turn_s` says: what the queue and the loop do to them is what is predicted.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import time
from dataclasses import asdict
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from envelope.messages import TaskRequest

from . import agent_scripts as scripts
from .agent_fleet import AgentFleet, Worker, agent_fleet
from .queue import Row, cpu_s
from .simulation import Costs, Fleet, Load, simulate

SHORT, LONG = 2, 12  # turns, of the conversations whose difference says what a turn costs
TURN_S = 0.1  # of theirs: no two agents ask at the same moment, as in a fleet
HELD_S = 6.0
THERE = Fleet(workers=4, slots=4)
CORES = 2  # of the machine that the small fleet shares with its Redis

SLOTS = (4, 10)  # of a worker: in the great fleet, and in the small one

THOUSAND = Fleet(workers=1_000, slots=SLOTS[0])
IN_CELLS = Fleet(workers=1_000, slots=SLOTS[0], cells=4)
PREDICTED = {
    "agents: 20 turns of 6 s": (THOUSAND, Load(1_000_000, turns=20, turn_s=6.0, spread=0.5)),
    "the same, 25 new ones a second": (THOUSAND, Load(1_000_000, turns=20, turn_s=6.0, spread=0.5, per_s=25)),
    "the same, 32 new ones a second": (THOUSAND, Load(1_000_000, turns=20, turn_s=6.0, spread=0.5, per_s=32)),
    "codemods of 2 s": (THOUSAND, Load(1_000_000, turns=1, turn_s=2.0, spread=0.5)),
    "codemods of 0.2 s": (THOUSAND, Load(1_000_000, turns=1, turn_s=0.2, spread=0.5)),
    "codemods of 0.2 s, four cells": (IN_CELLS, Load(1_000_000, turns=1, turn_s=0.2, spread=0.5)),
}


async def measure_costs(slots: int, agents: int) -> Costs:
    """For workers with so many slots: agents of one worker share round trips, so the fewer the dearer each one's is."""
    short, long = await _batches(slots, agents)
    turn = {name: (long[name] - short[name]) / agents / (LONG - SHORT) for name in long}
    task = {name: short[name] / agents - SHORT * turn[name] for name in short}
    return Costs(
        redis_task_us=max(0.0, task["redis_us"]),
        redis_turn_us=turn["redis_us"],
        redis_worker_us_s=await _being_there(),
        worker_task_us=max(0.0, task["worker_us"]),
        worker_turn_us=turn["worker_us"],
    )


async def _batches(slots: int, agents: int) -> list[Row]:
    """The CPU of many agents in line: short ones, and long ones; the least of three, for others only ever add."""
    async with agent_fleet(lambda blob: scripts.takes(blob, TURN_S)) as fleet:
        worker = await fleet.worker("build", slots=slots)
        await _used(fleet, worker, [_agent(fleet, SHORT)])  # pays for imports and caches
        rows = {turns: [await _batch(fleet, worker, agents, turns) for _ in range(3)] for turns in (SHORT, LONG)}
    return [{name: min(row[name] for row in rows[turns]) for name in rows[turns][0]} for turns in (SHORT, LONG)]


async def _batch(fleet: AgentFleet, worker: Worker, agents: int, turns: int) -> Row:
    return await _used(fleet, worker, [_agent(fleet, turns) for _ in range(agents)])


async def _used(fleet: AgentFleet, worker: Worker, requests: list[TaskRequest]) -> Row:
    redis_s = cpu_s(fleet.redis_pid)
    spent = await worker.spends(lambda: fleet.run(requests))
    return {"worker_us": spent["cpu_s"] * 1e6, "redis_us": (cpu_s(fleet.redis_pid) - redis_s) * 1e6}


async def _being_there() -> float:
    """What a worker whose agents all wait for their models costs Redis in a second: renewals, looks, heart-beats."""
    shape = THERE
    async with agent_fleet(lambda blob: scripts.takes(blob, HELD_S + 3)) as fleet:
        alone_us_s = await _redis_us_s(fleet)
        for _ in range(shape.workers):
            await fleet.worker("build", slots=shape.slots)
        requests = [_agent(fleet, 1) for _ in range(shape.workers * shape.slots)]
        async with asyncio.TaskGroup() as group:
            group.create_task(fleet.run(requests))
            await asyncio.sleep(2)  # all have asked
            return (await _redis_us_s(fleet) - alone_us_s) / shape.workers


async def _redis_us_s(fleet: AgentFleet) -> float:
    before_s = cpu_s(fleet.redis_pid)
    await asyncio.sleep(HELD_S)
    return (cpu_s(fleet.redis_pid) - before_s) / HELD_S * 1e6


def _agent(fleet: AgentFleet, turns: int) -> TaskRequest:
    return fleet.request(scripts.prompt("read", turns))


# -- the check


async def measure_run(shape: Fleet, load: Load) -> Row:
    """The same load on a real fleet: workers, slots and turns as they are said to be."""
    async with agent_fleet(lambda blob: scripts.takes(blob, load.turn_s)) as fleet:
        for _ in range(shape.workers):
            await fleet.worker("build", slots=shape.slots)
        # pays for imports, and opens what each worker keeps open
        await fleet.run([_agent(fleet, load.turns) for _ in range(shape.workers * shape.slots)])
        requests = [_agent(fleet, load.turns) for _ in range(load.tasks)]
        began_s, redis_s = time.perf_counter(), cpu_s(fleet.redis_pid)
        if load.per_s is None:
            await fleet.run(requests)
        else:
            chance = random.Random(1)
            running: list[asyncio.Task[Any]] = []
            for request in requests:
                await asyncio.sleep(chance.expovariate(load.per_s))
                running.append(asyncio.create_task(fleet.run([request])))
            await asyncio.gather(*running)
        took_s, redis_s = time.perf_counter() - began_s, cpu_s(fleet.redis_pid) - redis_s
        waits_s = [await _waited_s(fleet, request) for request in requests]
    return {
        "took_s": took_s,
        "redis_busy": redis_s / took_s,
        "wait_p50_s": median(waits_s),
        "wait_p95_s": quantiles(waits_s, n=20)[18],
    }


async def _waited_s(fleet: AgentFleet, request: TaskRequest) -> float:
    record = await fleet.transport.record(request.task_id)
    assert record.started_at_ms is not None, record
    return (record.started_at_ms - record.accepted_at_ms) / 1000


def checked(*, quick: bool) -> dict[str, tuple[Fleet, Load]]:
    """Twenty slots: all at once, and at a pace that they can just keep up with."""
    fleet, tasks = Fleet(workers=2, slots=SLOTS[1], cores=CORES), 100 if quick else 400
    return {
        f"{tasks} agents of 5 turns, at once": (fleet, Load(tasks, turns=5, turn_s=0.2)),
        f"{tasks} agents of 5 turns, 15 a second": (fleet, Load(tasks, turns=5, turn_s=0.2, per_s=15)),
    }


# -- the report


async def report(*, quick: bool) -> dict[str, Any]:
    """Measure what tasks cost, hold two runs against what that predicts for them, then predict the large fleets. Each
    line is printed as soon as it is known; the same figures come back, for `--json`."""
    found: dict[str, Any] = {"costs": {}, "checked": {}, "predicted": {}}
    costs: dict[int, Costs] = {}
    for slots in SLOTS:
        costs[slots] = await measure_costs(slots, agents=slots * (2 if quick else 5))
        found["costs"][slots] = asdict(costs[slots])
        figures = ", ".join(f"{name} {figure:,.0f}" for name, figure in asdict(costs[slots]).items())
        print(f"costs in workers of {slots} slots, in µs of CPU: {figures}", flush=True)
    for name, (fleet, load) in checked(quick=quick).items():
        measured, predicted = await measure_run(fleet, load), asdict(simulate(fleet, load, costs[fleet.slots]))
        found["checked"][name] = {"measured": measured, "predicted": predicted}
        print(f"{name}: measured / predicted")
        print("    " + "  ".join(f"{key} {measured[key]:.2f} / {predicted[key]:.2f}" for key in measured), flush=True)
    for name, (fleet, load) in PREDICTED.items():
        predicted = asdict(simulate(fleet, load, costs[fleet.slots]))
        found["predicted"][name] = predicted
        print(f"1,000,000 {name}, {fleet.workers:,} workers of {fleet.slots} slots, {fleet.cells} cell(s): predicted")
        print("    " + "  ".join(f"{key} {figure:,.2f}" for key, figure in predicted.items()), flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="smaller fleets to measure and to check against")
    parser.add_argument("--json", type=Path, help="write the figures there, too")
    options = parser.parse_args()
    found = asyncio.run(report(quick=options.quick))
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
