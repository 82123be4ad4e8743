"""Waiting for what the server says, never for a time."""

from __future__ import annotations

from collections.abc import Iterable

from envelope.events import StateChanged
from envelope.lifecycle import State
from envelope.messages import TaskProgress, TaskResult
from transport.base import Entry, Transport


async def results(transport: Transport, task_ids: Iterable[str]) -> dict[str, TaskResult]:
    return {result.task_id: result async for result in transport.results(task_ids)}


async def running(transport: Transport, trace_id: str, count: int, *, attempt: int = 1) -> None:
    """Until so many tasks of the trace have started their attempt of that number."""
    started: set[str] = set()
    async for entry in transport.follow(trace_id):
        if entry.message.attempt == attempt and moved_to(entry) is State.RUNNING:
            started.add(entry.message.task_id)
            if len(started) == count:
                return
    raise AssertionError(f"the trace ended when {len(started)} of {count} tasks had started attempt {attempt}")


def moved_to(entry: Entry) -> State | None:
    """The state that the entry tells of, when it tells of one."""
    if not isinstance(entry.message, TaskProgress):
        return entry.message.status
    return next((event.state for event in entry.message.events if isinstance(event, StateChanged)), None)


async def past_the_moment(transport: Transport) -> None:
    """Until what comes next has another millisecond: what came in one stands in the order of its ids, not of time."""
    moment = await transport.now_ms()
    while await transport.now_ms() == moment:
        pass
