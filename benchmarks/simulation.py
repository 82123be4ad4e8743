"""A fleet as servers and lines: what `benchmarks.simulate` predicts with. Pure; times in seconds, costs in µs.

A discrete-event simulation. Redis (one server for each cell) and each worker process do one thing at a time, in the
order in which it comes; a slot holds one task from its claim to its result; tasks wait in one line for the next free
slot. What a task's turns cost is paid in one piece at its end: the sums stay as they are, short waits get longer.
"""

from __future__ import annotations

import heapq
import math
import random
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import IntEnum
from statistics import mean, quantiles


@dataclass(frozen=True, slots=True)
class Costs:
    """CPU of one thing, as measured. `redis_worker_us_s`: what a busy worker's renewals and looks cost in a second."""

    redis_task_us: float
    redis_turn_us: float
    redis_worker_us_s: float
    worker_task_us: float
    worker_turn_us: float


@dataclass(frozen=True, slots=True)
class Fleet:
    """`cores`: of the one machine that everything shares; None: each process has a core of its own."""

    workers: int
    slots: int
    cells: int = 1
    cores: int | None = None


@dataclass(frozen=True, slots=True)
class Load:
    """`turn_s`: what a turn waits for its model and tools. `spread`: the standard deviation of a task's length, as a
    part of it (lognormal). `per_s`: how many come in a second, at random; None: all are there at the beginning."""

    tasks: int
    turns: int
    turn_s: float
    spread: float = 0.0
    per_s: float | None = None


@dataclass(frozen=True, slots=True)
class Prediction:
    """`redis_busy`, `worker_busy`, `slots_busy`: parts of the time, on average. Waits are from arrival to claim."""

    took_s: float
    redis_busy: float
    worker_busy: float
    slots_busy: float
    wait_mean_s: float
    wait_p50_s: float
    wait_p95_s: float


class Stage(IntEnum):
    CLAIMED = 0  # Redis starts it
    BEGUN = 1  # the worker prepares it
    WORKED = 2  # models and tools are done: the worker's own part
    TOLD = 3  # Redis takes events and result
    ENDED = 4  # the slot is free


@dataclass(slots=True)
class _Machine:
    """The cores that processes share; the one that is free first takes what comes."""

    free_at_s: list[float]

    def from_s(self, now_s: float) -> float:
        return max(now_s, heapq.heappop(self.free_at_s))

    def until(self, end_s: float) -> None:
        heapq.heappush(self.free_at_s, end_s)


@dataclass(slots=True)
class _Process:
    machine: _Machine | None
    free_at_s: float = 0.0
    busy_s: float = 0.0

    def does(self, now_s: float, us: float) -> float:
        """When it has done that, which it begins when it (and a core) is free."""
        ready_s = max(now_s, self.free_at_s)
        begin_s = self.machine.from_s(ready_s) if self.machine else ready_s
        self.busy_s += us / 1e6
        self.free_at_s = begin_s + us / 1e6
        if self.machine:
            self.machine.until(self.free_at_s)
        return self.free_at_s


@dataclass(slots=True)
class _World:
    """`queue`: when each that waits arrived. `free`: workers with a slot, each as often as it has one."""

    redis: list[_Process]
    workers: list[_Process]
    free: deque[int]
    queue: deque[float] = field(default_factory=deque[float])
    waits_s: list[float] = field(default_factory=list[float])
    held_s: float = 0.0


def simulate(fleet: Fleet, load: Load, costs: Costs, *, seed: int = 1) -> Prediction:
    """The same seed gives the same prediction. A million tasks take about half a minute."""
    chance = random.Random(seed)
    machine = _Machine([0.0] * fleet.cores) if fleet.cores else None
    upkeep = costs.redis_worker_us_s / 1e6 * fleet.workers / fleet.cells  # a part of each cell's time
    if upkeep >= 1:
        raise ValueError(f"{fleet.workers} workers keep {fleet.cells} cells busy by being there")
    slow = 1 / (1 - upkeep)
    world = _World(
        redis=[_Process(machine) for _ in range(fleet.cells)],
        workers=[_Process(machine) for _ in range(fleet.workers)],
        # in rounds, as when all come to the queue together
        free=deque(worker for _ in range(fleet.slots) for worker in range(fleet.workers)),
    )
    ended_s = _run(world, load, costs, chance, slow)
    return Prediction(
        took_s=ended_s,
        redis_busy=mean(cell.busy_s for cell in world.redis) / ended_s,
        worker_busy=mean(worker.busy_s for worker in world.workers) / ended_s,
        slots_busy=world.held_s / ended_s / (fleet.workers * fleet.slots),
        wait_mean_s=mean(world.waits_s),
        wait_p50_s=quantiles(world.waits_s, n=20)[9],
        wait_p95_s=quantiles(world.waits_s, n=20)[18],
    )


def _run(world: _World, load: Load, costs: Costs, chance: random.Random, slow: float) -> float:
    """Until the last task has ended; when that is."""
    redis_us = {
        Stage.CLAIMED: costs.redis_task_us / 2,
        Stage.TOLD: costs.redis_task_us / 2 + load.turns * costs.redis_turn_us,
    }
    worker_us = {Stage.BEGUN: costs.worker_task_us, Stage.WORKED: load.turns * costs.worker_turn_us}
    arrivals = _arrivals(load, chance)
    events: list[tuple[float, int, Stage, int, int, float]] = []  # when, order, what, its cell, its worker, its claim
    order, now_s = 0, 0.0
    coming = next(arrivals, math.inf)
    while events or world.queue or coming < math.inf:
        while world.queue and world.free:
            world.waits_s.append(now_s - world.queue.popleft())
            cell = order % len(world.redis)
            heapq.heappush(events, (now_s, order, Stage.CLAIMED, cell, world.free.popleft(), now_s))
            order += 1
        if not events or coming <= events[0][0]:
            now_s = coming
            world.queue.append(coming)
            coming = next(arrivals, math.inf)
            continue
        now_s, number, stage, cell, worker, claimed_s = heapq.heappop(events)
        if stage is Stage.ENDED:
            world.free.append(worker)
            world.held_s += now_s - claimed_s
            continue
        if stage in redis_us:
            then_s = world.redis[cell].does(now_s, redis_us[stage] * slow)
        else:
            then_s = world.workers[worker].does(now_s, worker_us[stage])
        if stage is Stage.BEGUN:
            then_s += _length_s(load, chance)
        heapq.heappush(events, (then_s, number, Stage(stage + 1), cell, worker, claimed_s))
    return now_s


def _arrivals(load: Load, chance: random.Random) -> Iterator[float]:
    now_s = 0.0
    for _ in range(load.tasks):
        if load.per_s:
            now_s += chance.expovariate(load.per_s)
        yield now_s


def _length_s(load: Load, chance: random.Random) -> float:
    length_s = load.turns * load.turn_s
    if not load.spread:
        return length_s
    sigma = math.sqrt(math.log1p(load.spread**2))
    return length_s * chance.lognormvariate(-(sigma**2) / 2, sigma)  # of mean 1
