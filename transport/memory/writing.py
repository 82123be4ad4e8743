"""Writes of a worker while it holds its task: progress, money, checkpoints."""

from __future__ import annotations

from envelope.lifecycle import State
from envelope.messages import TaskProgress

from ..base import Handle, Prompt, Saved
from ..bounds import MAX_INBOX_BYTES, MAX_PROMPTS, stored_bytes
from ..errors import NotFound, inbox_full
from ..money import Ledger
from .fleet import Fleet
from .tasks import Task


def emit(
    fleet: Fleet, task: Task, progress: TaskProgress, charge_microusd: int, release_microusd: int, gets_on: bool
) -> Ledger:
    fleet.append(task, progress)
    if gets_on:
        task.forgiven = task.lost_leases
    released = min(release_microusd, task.reserved_microusd)
    task.spent_microusd += charge_microusd
    task.reserved_microusd -= released
    for purse in fleet.purses_of(task):
        purse.spent_microusd += charge_microusd
        purse.reserved_microusd -= released
    return fleet.ledger_of(task)


def reserve(fleet: Fleet, task: Task, amount_microusd: int) -> Ledger | None:
    purses = fleet.purses_of(task)
    if not all(purse.allows(amount_microusd) for purse in purses):
        return None
    task.reserved_microusd += amount_microusd
    for purse in purses:
        purse.reserved_microusd += amount_microusd
    return fleet.ledger_of(task)


def checkpoint(fleet: Fleet, task: Task, blob: str, heard: int) -> Saved:
    session = fleet.sessions[task.session_id]
    task.checkpoint = session.checkpoint = blob
    del session.inbox[:heard]
    return Saved(fleet.ledger_of(task), tuple(session.inbox))


def _size_of(word: Prompt) -> int:
    """As `prompt.lua` writes it."""
    return stored_bytes(word.text) + stored_bytes(word.by) + len('{"text":,"by":,"at_ms":}') + len(str(word.at_ms))


def prompt(fleet: Fleet, session_id: str, word: Prompt) -> Handle:
    session = fleet.sessions.get(session_id)
    if session is None or session.holder is None:
        raise NotFound(f"no task runs the session {session_id}", hint="submit a task with its resume_token")
    if len(session.inbox) >= MAX_PROMPTS or sum(map(_size_of, [*session.inbox, word])) > MAX_INBOX_BYTES:
        raise inbox_full(session_id)
    session.inbox.append(word)
    holder = fleet.tasks[session.holder]
    holder.prompted = True
    if holder.state is State.WAITING and holder.wakes_at_first:
        fleet.requeue(holder, "a prompt came in")
    return Handle(holder.id, holder.trace_id, existing=True)
