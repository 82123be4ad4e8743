"""How far a batch is. Pure."""

from __future__ import annotations

from collections import Counter

from envelope.lifecycle import State
from envelope.wire import Wire
from transport.base import TaskRecord

from ..session.fold import Session

STATES = {State.PENDING: "in line", State.RUNNING: "running", State.WAITING: "waiting", State.COMPLETED: "done"}
MAX_FAILED = 100


class FailedTask(Wire):
    title: str
    error: str


class BatchStatus(Wire):
    """`tasks`: how many of its tasks (shards, gates, answers to conflicts) are in which state, in words for people."""

    task_id: str
    trace_id: str
    name: str
    state: State
    tasks: dict[str, int]
    cost_microusd: int
    failed: tuple[FailedTask, ...] = ()


def status_of(record: TaskRecord, session: Session) -> BatchStatus:
    """A batch under way, from its fold; the names of the first tasks that failed, the counts of all."""
    children = [session.tasks[child] for child in session.root_task.children]
    counts = Counter(STATES.get(child.state, str(child.state)) for child in children)
    failed = [FailedTask(title=child.title, error=child.error) for child in children if child.error]
    return BatchStatus(
        task_id=record.task_id,
        trace_id=record.trace_id,
        name=record.intent,
        state=record.state,
        tasks=dict(counts.most_common()),
        cost_microusd=session.cost_microusd,
        failed=tuple(failed[:MAX_FAILED]),
    )
