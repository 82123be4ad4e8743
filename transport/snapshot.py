"""What a reader gets for entries of a stream that are no longer kept: where each task is now."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from envelope.events import ChildSpawned, Event, Resynced, StateChanged
from envelope.messages import TaskProgress, TaskResult

from .base import Entry, TaskRecord
from .concerning import concerns


def snapshot(
    records: Sequence[TaskRecord],
    results: Mapping[str, TaskResult],
    *,
    now_ms: int,
    after: str,
    before_first: str,
    about: str = "",
) -> list[Entry]:
    """For each task of a trace a progress with `Resynced`, its state and its children; the result of those that ended.

    All but the last carry the reader's own `after`: who is cut off in the middle and resumes gets the whole again. The
    last one's id stands right before the first entry that is kept, and so does a reader who has seen it. `about`: of
    one task alone, as in `Transport.follow`.
    """
    children: defaultdict[str, list[TaskRecord]] = defaultdict(list)
    for record in records:
        children[record.parent_task_id or ""].append(record)
    messages: list[TaskProgress | TaskResult] = []
    for record in records:
        messages.append(_progress(record, children[record.task_id], now_ms))
        if result := results.get(record.task_id):
            messages.append(result)
    messages = [message for message in messages if concerns(message, about)]
    ids = [*[after] * (len(messages) - 1), before_first][: len(messages)]
    return [Entry(entry_id, message) for entry_id, message in zip(ids, messages, strict=True)]


def _progress(record: TaskRecord, children: Sequence[TaskRecord], now_ms: int) -> TaskProgress:
    spawned: list[Event] = [
        ChildSpawned(child_task_id=child.task_id, agent=child.agent, title=child.intent) for child in children
    ]
    return TaskProgress(
        trace_id=record.trace_id,
        task_id=record.task_id,
        attempt=record.attempt,
        seq=-1,
        at_ms=now_ms,
        status=record.state,
        events=(Resynced(), StateChanged(state=record.state, worker=record.worker), *spawned),
    )
