"""What readers see: a trace's stream, and the ends of many tasks."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable

from envelope.codec import decode_result
from envelope.messages import TaskResult

from ..base import Entry
from ..concerning import concerns
from ..errors import NotFound
from ..snapshot import snapshot
from .fleet import Fleet
from .tasks import Trace


async def follow(fleet: Fleet, trace_id: str, after: str, *, wait: bool, about: str = "") -> AsyncIterator[Entry]:
    trace = fleet.traces.get(trace_id)
    if trace is None:
        raise NotFound(f"there is no trace {trace_id}")
    while True:
        pulse = fleet.pulse
        for entry in _missed(fleet, trace, after, about):
            after = entry.id
            yield entry
        page = _kept(trace, after)
        for entry in page:
            after = entry.id
            if concerns(entry.message, about):
                yield entry
            if isinstance(entry.message, TaskResult) and entry.message.task_id == trace.root:
                return
        if not page:
            if not wait or not fleet.tasks[trace.root].live:
                return
            await pulse.wait()


async def results(fleet: Fleet, task_ids: Iterable[str]) -> AsyncIterator[TaskResult]:
    wanted = {task_id: fleet.task(task_id) for task_id in task_ids}
    while wanted:
        pulse = fleet.pulse
        ended = [task for task in wanted.values() if task.result]
        for task in sorted(ended, key=lambda task: task.ended_as):
            del wanted[task.id]
            yield decode_result(task.result)
        if wanted and not ended:
            await pulse.wait()


def _kept(trace: Trace, after: str) -> list[Entry]:
    seen = _number(after)
    return [Entry(f"{number}-0", message) for number, message in trace.entries if number > seen]


def _missed(fleet: Fleet, trace: Trace, after: str, about: str) -> list[Entry]:
    """What stands for entries that a reader has not seen and that are no longer kept."""
    if _number(after) >= trace.dropped:
        return []
    tasks = [fleet.tasks[task_id] for task_id in trace.tasks]
    ended = {task.id: decode_result(task.result) for task in tasks if task.result}
    records = [task.record() for task in tasks]
    now_ms, before_first = fleet.now(), f"{trace.dropped}-0"
    return snapshot(records, ended, now_ms=now_ms, after=after, before_first=before_first, about=about)


def _number(entry_id: str) -> int:
    return int(entry_id.partition("-")[0])
