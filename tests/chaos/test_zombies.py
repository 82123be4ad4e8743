"""R2 and R4: who lost a lease changes nothing any more; who is only busy loses none."""

from __future__ import annotations

from dataclasses import replace

import pytest
from lab.checks import LEASED, violations
from lab.figures import report
from lab.fleet import LEASE_MS, LIMITS, Fleet, MakeFleet
from lab.history import Outcome
from lab.job import Habit, Job, request
from lab.processes import Nursery
from lab.reader import read_history
from lab.schedule import SOAK
from lab.waiting import results, running

from envelope.ids import new_trace_id
from transport.base import Transport

pytestmark = [pytest.mark.chaos, pytest.mark.redis]

TASKS = 8
# A thread that renews is late when the machine is; and whoever stands still for a whole lease has lost it.
PATIENT_LEASE_MS = 3 * LEASE_MS
BLOCKED_MS = 60_000 if SOAK else 5 * LEASE_MS


async def test_a_worker_that_was_paused_beyond_its_lease_changes_nothing(
    fleet: Fleet, transport: Transport, nursery: Nursery
) -> None:
    """Half of the tasks have ended elsewhere when it wakes, the others run elsewhere."""
    short, long = Job(habit=Habit.ZOMBIE, turns_ms=(10,)), Job(habit=Habit.ZOMBIE, turns_ms=(1, 4 * LEASE_MS))
    trace_id = new_trace_id()
    requests = [request(job, trace_id=trace_id) for job in [long] * (TASKS // 2) + [short] * (TASKS // 2)]
    zombie = await nursery.start("worker", "zombie", fleet, slots=TASKS)
    await transport.submit(requests)
    await running(transport, trace_id, TASKS)
    zombie.pause()
    heir = await nursery.start("worker", "heir", fleet, slots=TASKS)
    await running(transport, trace_id, TASKS, attempt=2)
    await results(transport, [request.task_id for request in requests[TASKS // 2 :]])

    zombie.resume()
    await results(transport, [request.task_id for request in requests])
    await zombie.stop()
    await heir.stop()

    history = await read_history(fleet)
    # its first attempts: should the heir stumble, too, the zombie is a good worker of the next ones
    tried = [op for op in history.of(*LEASED) if op.process == "zombie" and op.attempt == 1]
    accepted = [op.what for op in tried if op.ok]
    counted = (await transport.counters()).get("fenced_writes", 0)
    report("R2", tried=len(tried), accepted=len(accepted), fenced_writes_counted=counted)
    assert {op.what for op in tried} == set(LEASED)
    assert accepted == []
    assert len(tried) == sum(op.outcome is Outcome.FAILED for op in tried) <= counted
    assert violations(history) == []


async def test_a_worker_whose_event_loop_is_blocked_keeps_its_leases(make_fleet: MakeFleet, nursery: Nursery) -> None:
    """Blocked for longer than a lease, beside an idle worker that would take the task at once."""
    fleet = make_fleet(replace(LIMITS, lease_ms=PATIENT_LEASE_MS))
    await nursery.start("worker", "busy", fleet, slots=2)
    task = request(Job(habit=Habit.BLOCKING, hold_ms=BLOCKED_MS))
    async with fleet.connected() as transport:
        await transport.submit([task])
        await running(transport, task.trace_id, 1)
        idle = await nursery.start("worker", "idle", fleet)
        assert await idle.is_ready()
        await results(transport, [task.task_id])

        record = await transport.record(task.task_id)
    report("R4", blocked_ms=BLOCKED_MS, lease_ms=PATIENT_LEASE_MS, lost_leases=record.lost_leases)
    assert (record.attempt, record.lost_leases, record.worker) == (1, 0, "busy")
