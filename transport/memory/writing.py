"""What a worker writes while it holds its task: progress, money, checkpoints."""

from __future__ import annotations

from envelope.lifecycle import State
from envelope.messages import TaskProgress

from ..base import Handle, Ledger, Prompt, Saved
from ..errors import NotFound
from .fleet import Fleet
from .tasks import Task


def emit(fleet: Fleet, task: Task, progress: TaskProgress, charge_microusd: int, release_microusd: int) -> Ledger:
    trace = fleet.traces[task.trace_id]
    fleet.append(task, progress)
    task.spent_microusd += charge_microusd
    trace.spent_microusd += charge_microusd
    released = min(release_microusd, task.reserved_microusd)
    task.reserved_microusd -= released
    trace.reserved_microusd -= released
    return trace.ledger()


def reserve(fleet: Fleet, task: Task, amount_microusd: int) -> Ledger | None:
    trace = fleet.traces[task.trace_id]
    taken = trace.spent_microusd + trace.reserved_microusd
    if trace.cap_microusd is not None and taken + amount_microusd > trace.cap_microusd:
        return None
    task.reserved_microusd += amount_microusd
    trace.reserved_microusd += amount_microusd
    return trace.ledger()


def checkpoint(fleet: Fleet, task: Task, blob: str, heard: int) -> Saved:
    session = fleet.sessions[task.session_id]
    task.checkpoint = session.checkpoint = blob
    del session.inbox[:heard]
    return Saved(fleet.traces[task.trace_id].ledger(), tuple(session.inbox))


def prompt(fleet: Fleet, session_id: str, word: Prompt) -> Handle:
    session = fleet.sessions.get(session_id)
    if session is None or session.holder is None:
        raise NotFound(f"no task runs the session {session_id}", hint="submit a task with its resume_token")
    session.inbox.append(word)
    holder = fleet.tasks[session.holder]
    holder.prompted = True
    if holder.state is State.WAITING and holder.wakes_at_first:
        fleet.requeue(holder, "a prompt came in")
    return Handle(holder.id, holder.trace_id, existing=True)
