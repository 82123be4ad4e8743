"""R3 and R5: how soon a lost worker's tasks go on, and that a killed Redis loses nothing."""

from __future__ import annotations

import asyncio
import random
import time

import pytest
from lab.checks import violations
from lab.crew import Crew
from lab.figures import percentile, report
from lab.fleet import LEASE_MS, Fleet, MakeFleet
from lab.history import History
from lab.job import Habit, Job, request
from lab.processes import Nursery
from lab.reader import read_history
from lab.schedule import seeds
from lab.server import Server
from lab.standstill import Standstill
from lab.waiting import results, running

from envelope.ids import new_trace_id

pytestmark = [pytest.mark.chaos, pytest.mark.redis]

ROUNDS, HELD = 5, 20
RECLAIM_AIM_MS = LEASE_MS + 3_000

RESTARTS = 5
LONGEST_DOWN_S = 3.0  # a supervisor that starts it again, and an append-only file that must be read
BACK_AIM_MS = 5_000


async def test_a_killed_workers_tasks_are_soon_another_workers(make_fleet: MakeFleet, nursery: Nursery) -> None:
    """Killed at random moments between two renewals of its leases, beside an idle worker; a fleet for each, all at
    once."""
    (seed,) = seeds(1)
    chance = random.Random(seed)
    moments_s = [chance.uniform(0, LEASE_MS / 3 / 1000) for _ in range(ROUNDS)]
    rounds = [kill_one(make_fleet(), nursery, number, after_s) for number, after_s in enumerate(moments_s)]
    done = await asyncio.gather(*rounds)
    took_ms, stood_still_ms = [each for took, _ in done for each in took], [still_ms for _, still_ms in done]

    report("R3", seed=seed, lease_ms=LEASE_MS, kills=ROUNDS, tasks=len(took_ms), p50_ms=percentile(took_ms, 0.5),
           p95_ms=percentile(took_ms, 0.95), max_ms=max(took_ms))  # fmt: skip
    assert percentile(took_ms, 0.95) <= RECLAIM_AIM_MS + max(stood_still_ms)


async def kill_one(fleet: Fleet, nursery: Nursery, number: int, after_s: float) -> tuple[list[int], int]:
    """From the kill to each task's next start, by the server's time, and how long all stood still meanwhile."""
    trace_id = new_trace_id()
    requests = [request(Job(habit=Habit.FORSAKEN), trace_id=trace_id) for _ in range(HELD)]
    victim = await nursery.start("worker", f"victim.{number}", fleet, slots=HELD)
    async with fleet.connected() as transport:
        await transport.submit(requests)
        await running(transport, trace_id, HELD)
        heir = await nursery.start("worker", f"heir.{number}", fleet, slots=HELD)
        assert await heir.is_ready()
        await asyncio.sleep(after_s)
        with Standstill() as still:
            victim.kill()
            killed_at_ms = await transport.now_ms()
            await results(transport, [request.task_id for request in requests])
    await heir.stop()
    starts = (await read_history(fleet)).starts()
    took_ms = [starts[request.task_id, 2].at_ms - killed_at_ms for request in requests]
    return [each for each in took_ms if each >= 0], still.ms  # below: a standstill before the kill cost the lease


@pytest.mark.parametrize("seed", seeds(1))
async def test_a_redis_that_is_killed_under_load_loses_nothing(
    seed: int, fleet: Fleet, nursery: Nursery, server: Server
) -> None:
    async with Crew(nursery, fleet, 4) as crew:
        share = {"share": f"restarts {seed}", "seed": seed, "count": 600, "over_s": 12.0}
        submitter = await nursery.start("submitter", "s.1", fleet, **share, began_ns=time.monotonic_ns())
        await crew.whole()
        chance = random.Random(seed)
        restarts: list[tuple[int, int]] = []  # (killed, takes commands again), CLOCK_MONOTONIC
        with Standstill() as still:
            for _ in range(RESTARTS):
                await asyncio.sleep(chance.uniform(0.5, 2.5))
                killed_ns = time.monotonic_ns()
                await server.kill()
                await asyncio.sleep(chance.uniform(0.0, LONGEST_DOWN_S))
                await server.start()
                restarts.append((killed_ns, time.monotonic_ns()))
            async with asyncio.timeout(60):
                await submitter.ended.wait()

    history = await read_history(fleet)
    back_ms = [gap for killed, ready in restarts for gap in back_after_ms(history, killed, ready)]
    report("R5", seed=seed, restarts=RESTARTS, tasks=len(history.records), operations=len(history.ops),
           down_ms=[(ready - killed) // 1_000_000 for killed, ready in restarts], back_max_ms=max(back_ms))  # fmt: skip
    assert violations(history) == []
    assert len(back_ms) > RESTARTS
    assert max(back_ms) < BACK_AIM_MS + still.ms


def back_after_ms(history: History, killed_ns: int, ready_ns: int) -> list[int]:
    """For each worker of that moment, from the server's return to the first thing that the server did for it.

    Of the last restart some may come back when all is done: the server does nothing for them any more.
    """
    workers = {op.process for op in history.ops if op.process.startswith("w") and op.began_ns < killed_ns}
    done = [(op.process, op.ended_ns or 0) for op in history.ops if op.ok]
    later = [[at_ns for process, at_ns in done if process == worker and at_ns > ready_ns] for worker in workers]
    return [(min(times) - ready_ns) // 1_000_000 for times in later if times]
