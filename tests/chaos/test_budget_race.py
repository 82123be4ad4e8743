"""R14: many workers race for one budget, and some die between setting money aside and spending it."""

from __future__ import annotations

import asyncio

import pytest
from lab.checks import violations
from lab.crew import Crew, strike
from lab.figures import report
from lab.fleet import Fleet
from lab.job import Job, request
from lab.processes import Nursery
from lab.reader import read_history
from lab.schedule import faults, seeds
from lab.waiting import results

from envelope.budget import Budget
from envelope.ids import new_trace_id
from transport.base import Transport

pytestmark = [pytest.mark.chaos, pytest.mark.redis]

CAP_MICROUSD, TURN_MICROUSD = 1_000_000, 7_000
TASKS, TURNS = 64, 10
PROCESSES, SLOTS = 4, 16
STRUCK_FOR_S = 4.0


@pytest.mark.parametrize("seed", seeds(1))
async def test_a_race_for_a_budget_never_exceeds_it(
    seed: int, fleet: Fleet, transport: Transport, nursery: Nursery
) -> None:
    """Four times as much is wanted as there is."""
    trace_id, budget = new_trace_id(), Budget(max_cost_microusd=CAP_MICROUSD)
    job = Job(turns_ms=(50,) * TURNS, cost_microusd=TURN_MICROUSD)
    tasks = [request(job, trace_id=trace_id, budget=budget) for _ in range(TASKS)]
    async with Crew(nursery, fleet, PROCESSES, slots=SLOTS) as crew:
        await transport.submit(tasks)
        await strike(crew, faults(seed, PROCESSES), STRUCK_FOR_S, rest_s=0.2)
        async with asyncio.timeout(60):
            await results(transport, [task.task_id for task in tasks])

    history = await read_history(fleet)
    ledger = history.ledgers[trace_id]
    refused = sum(op.ok and op.answer["ledger"] is None for op in history.of("reserve"))
    report("R14", seed=seed, cap=CAP_MICROUSD, spent=ledger.spent_microusd, reserved=ledger.reserved_microusd,
           reservations_refused=refused)  # fmt: skip
    assert violations(history) == []
    assert CAP_MICROUSD - TURN_MICROUSD < ledger.spent_microusd <= CAP_MICROUSD
    assert refused
