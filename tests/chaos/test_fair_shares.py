"""R16: a trace of ten tasks beside one of ten thousand, with all slots full."""

from __future__ import annotations

from dataclasses import replace

import pytest
from lab.figures import percentile, report
from lab.fleet import LIMITS, MakeFleet
from lab.history import Entry, History
from lab.job import Job, request
from lab.processes import Nursery
from lab.reader import read_history
from lab.waiting import results, running

from envelope.ids import new_trace_id
from envelope.lifecycle import State
from transport.base import Transport

pytestmark = [pytest.mark.chaos, pytest.mark.redis]

MANY, FEW = 10_000, 10
SLOTS, WORK_MS = 20, 250


async def test_a_small_trace_does_not_wait_for_a_large_one(make_fleet: MakeFleet, nursery: Nursery) -> None:
    fleet = make_fleet(replace(LIMITS, children_per_trace=MANY))
    transport = await fleet.connect()
    for number in range(2):
        await nursery.start("worker", f"w{number}", fleet, slots=SLOTS // 2)
    alone = await submit_few(transport)
    large = await submit_many(transport)
    beside = await submit_few(transport)
    await transport.cancel(large, by="test", reason="seen enough")
    await results(transport, [large])

    history = await read_history(fleet)
    alone_ms, beside_ms = waits_ms(history, alone), waits_ms(history, beside)
    held_ms = held_p95_ms(history, history.records[large].trace_id)
    overtaken = [overtakers(history, task_id) for task_id in beside]
    report("R16", slots=SLOTS, work_ms=WORK_MS, held_p95_ms=held_ms, alone_p95_ms=percentile(alone_ms, 0.95),
           beside_p95_ms=percentile(beside_ms, 0.95), overtaken_by_at_most=max(overtaken))  # fmt: skip
    await transport.close()
    assert percentile(beside_ms, 0.95) <= percentile(alone_ms, 0.95) + 1.5 * held_ms
    assert max(overtaken) <= 2 * SLOTS


async def submit_few(transport: Transport) -> list[str]:
    """Ten tasks of one trace, from first to last."""
    trace_id = new_trace_id()
    requests = [request(Job(turns_ms=(WORK_MS,)), trace_id=trace_id) for _ in range(FEW)]
    await transport.submit(requests)
    await results(transport, [request.task_id for request in requests])
    return [request.task_id for request in requests]


async def submit_many(transport: Transport) -> str:
    """A root and ten thousand children, of which as many run as there are slots; the root's id."""
    root = request(
        Job(turns_ms=(WORK_MS,)), recipient="explore"
    )  # nobody serves that pool: it stays, and holds no slot
    children = [
        request(Job(turns_ms=(WORK_MS,)), trace_id=root.trace_id, parent_task_id=root.task_id) for _ in range(MANY)
    ]
    await transport.submit([root])
    await transport.submit(children)
    await running(transport, root.trace_id, SLOTS)
    return root.task_id


def waits_ms(history: History, task_ids: list[str]) -> list[int]:
    """From acceptance to the start."""
    starts = history.starts()
    return [starts[task_id, 1].at_ms - history.records[task_id].accepted_at_ms for task_id in task_ids]


def held_p95_ms(history: History, trace_id: str) -> int:
    """The time from a start to the end of its task: on a slow machine tasks hold their slots for longer."""
    stream = history.streams[trace_id]
    ends_ms = {entry.task_id: entry.at_ms for entry in stream if entry.state is State.COMPLETED}
    held_ms = [ends_ms[each.task_id] - each.at_ms for each in stream if is_start(each) and each.task_id in ends_ms]
    return percentile(held_ms, 0.95)


def overtakers(history: History, task_id: str) -> int:
    """Tasks of other traces that started between a task's acceptance and its start."""
    trace_id, accepted_ms = history.records[task_id].trace_id, history.records[task_id].accepted_at_ms
    own_ms = history.starts()[task_id, 1].at_ms
    others = (entry for trace, stream in history.streams.items() if trace != trace_id for entry in stream)
    return sum(accepted_ms <= entry.at_ms <= own_ms for entry in others if is_start(entry))


def is_start(entry: Entry) -> bool:
    return entry.state is State.RUNNING and not entry.is_result
