"""Which messages of a trace's stream are about one of its tasks. Pure."""

from __future__ import annotations

from envelope.events import ChildEnded, ChildSpawned
from envelope.messages import TaskProgress, TaskResult


def concerns(message: TaskProgress | TaskResult, task_id: str) -> bool:
    """Is the message the task's own, or its parent's that tells of it? Without a task every message is."""
    if not task_id or message.task_id == task_id:
        return True
    return isinstance(message, TaskProgress) and any(
        isinstance(event, ChildSpawned | ChildEnded) and event.child_task_id == task_id for event in message.events
    )
