"""The plans of a task, from its trace's events."""

from __future__ import annotations

from envelope.plan import Plan
from transport.base import TaskRecord

from .session.fold import Session
from .submit import DRIVERS


def plans_of(session: Session, task: TaskRecord) -> dict[str, Plan]:
    """By the task that keeps it: the task's own, and of a goal also those of the tasks below it."""
    whole = task.pool == DRIVERS
    return {
        one.task_id: one.plan for one in session.tasks.values() if one.plan and (whole or one.task_id == task.task_id)
    }
