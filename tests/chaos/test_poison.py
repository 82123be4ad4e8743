"""R10: a task that takes its workers down is given up after the third, and hardly hurts its neighbours."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from lab.checks import violations
from lab.crew import Crew
from lab.figures import percentile, report
from lab.fleet import LIMITS, MakeFleet
from lab.job import Habit, Job, request
from lab.processes import Nursery
from lab.reader import read_history
from lab.waiting import results

from envelope.errors import ErrorCode
from envelope.lifecycle import State
from transport.base import Transport

pytestmark = [pytest.mark.chaos, pytest.mark.redis]

BEFORE, BESIDE, EVERY_S = 40, 100, 0.05  # neighbours; the poison takes its time
POISON_AFTER = 3


async def test_a_task_that_kills_its_workers_is_given_up(make_fleet: MakeFleet, nursery: Nursery) -> None:
    fleet = make_fleet(replace(LIMITS, poison_after=POISON_AFTER))
    transport = await fleet.connect()
    async with Crew(nursery, fleet, 4, slots=2) as crew:
        await crew.whole()
        before_ms = await waits_of_neighbours_ms(transport, BEFORE)
        started = crew.started
        poison = request(Job(habit=Habit.DEADLY))
        await transport.submit([poison])
        beside_ms = await waits_of_neighbours_ms(transport, BESIDE)

        (result,) = (await results(transport, [poison.task_id])).values()

        record = await transport.record(poison.task_id)
        letters = await transport.dead_letters()
        await crew.whole()
        report("R10", workers_lost=crew.started - started, lost_leases=record.lost_leases,
               neighbours_p95_ms=[percentile(waits_ms, 0.95) for waits_ms in (before_ms, beside_ms)],
               neighbours_max_ms=[max(before_ms), max(beside_ms)])  # fmt: skip
    await transport.close()
    assert (result.status, result.errors[0].code) == (State.ERROR, ErrorCode.POISON)
    assert record.lost_leases == crew.started - started == POISON_AFTER
    assert [letter.task_id for letter in letters] == [poison.task_id]
    assert violations(await read_history(fleet)) == []


async def waits_of_neighbours_ms(transport: Transport, count: int) -> list[int]:
    """From acceptance to the result of small tasks of other traces, sent evenly."""
    task_ids: list[str] = []
    for _ in range(count):
        (handle,) = await transport.submit([request(Job(turns_ms=(10,)))])
        task_ids.append(handle.task_id)
        await asyncio.sleep(EVERY_S)
    await results(transport, task_ids)
    records = [await transport.record(task_id) for task_id in task_ids]
    return [record.finished_at_ms - record.accepted_at_ms for record in records if record.finished_at_ms]
