"""How far a batch is. Pure."""

from __future__ import annotations

from collections import Counter

from pydantic import Field

from envelope.lifecycle import State
from envelope.wire import Wire
from transport.base import TaskRecord

from ..session.fold import Session
from .board import board_of

STATES = {State.PENDING: "in line", State.RUNNING: "running", State.WAITING: "waiting", State.COMPLETED: "done"}
MAX_FAILED = 100


class FailedTask(Wire):
    title: str
    error: str


class BatchStatus(Wire):
    """In words for people, where each shard stands (as on the console's board), and in which state its tasks are:
    those of shards, each step its own, gates, and answers to conflicts."""

    task_id: str
    trace_id: str
    name: str
    state: State
    shards: dict[str, int] = Field(default_factory=dict[str, int])
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
        shards={name: len(cards) for name, cards in board_of(session).columns.items() if cards},
        tasks=dict(counts.most_common()),
        cost_microusd=session.cost_microusd,
        failed=tuple(failed[:MAX_FAILED]),
    )
