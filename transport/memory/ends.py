"""Tasks that end: each once, with what is still alive below it."""

from __future__ import annotations

from collections.abc import Sequence

from envelope.codec import encode
from envelope.errors import CODES, ErrorCode
from envelope.lifecycle import State
from envelope.messages import ErrorInfo, Metrics, TaskResult

from ..base import DeadLetter
from ..notices import Kind
from .fleet import Fleet
from .tasks import Task

IS_THERE = "what it waited for is there"
# What the queue says to those who find that it has ended a task.
HINTS = {
    ErrorCode.DEADLINE: "give it a longer deadline, or look whether its pool has workers",
    ErrorCode.POISON: "look into the logs of the workers that it took down",
}


def finish(fleet: Fleet, task: Task, result: TaskResult, message: bytes, *, dead: str) -> bool:
    """By its worker. False: it goes on, with a prompt that no checkpoint holds."""
    if result.status is State.COMPLETED and _goes_on(fleet, task):
        fleet.requeue(task, "a prompt came in")
        return False
    if dead:
        bury(fleet, task, result.errors[0].code if result.errors else ErrorCode.INTERNAL, dead)
    task.ended_by = task.lease
    _end_tree(fleet, task, result, message)
    return True


def _goes_on(fleet: Fleet, task: Task) -> bool:
    """Once for each new prompt: an attempt that was sent on and still did not hear it would never end."""
    if not task.prompted or task.cancel_reason is not None or fleet.now() >= task.expires_at_ms:
        return False
    task.prompted = False
    return bool(fleet.sessions[task.session_id].inbox)


def finish_by_queue(fleet: Fleet, task: Task, code: ErrorCode, text: str) -> None:
    result = _result_of_queue(fleet, task, code, text)
    _end_tree(fleet, task, result, encode(result))


def ends_instead(fleet: Fleet, task: Task) -> bool:
    """End a task that would leave its worker, if it was cancelled or its deadline is over; False when neither."""
    if task.cancel_reason is not None:
        finish_by_queue(fleet, task, ErrorCode.CANCELLED, task.cancel_reason)
    elif fleet.now() >= task.expires_at_ms:
        finish_by_queue(fleet, task, ErrorCode.DEADLINE, "the task did not end before its deadline")
    else:
        return False
    return True


def cancel(fleet: Fleet, task: Task, *, by: str, reason: str) -> int:
    if task.live and task.cancel_reason is None:
        task.cancelled_by = by
    return stop(fleet, [task.id], reason)


def stop(fleet: Fleet, task_ids: Sequence[str], reason: str) -> int:
    """Running ones are told, others end at once, from the leaves up; how many were alive and not told before."""
    alive: list[Task] = []
    below = [fleet.tasks[task_id] for task_id in task_ids]
    for task in below:
        if task.live:
            alive.append(task)
            if task.state is State.WAITING:
                task.waits_for.clear()  # the end of its children is no news to a task that ends
            below.extend(fleet.tasks[child] for child in task.children)
    news = sum(task.cancel_reason is None for task in alive)
    for task in reversed(alive):
        if task.state is State.RUNNING:
            _ask_to_stop(fleet, task, reason)
        else:
            result = _result_of_queue(fleet, task, ErrorCode.CANCELLED, reason)
            _close(fleet, task, result, encode(result))
    return news


def _ask_to_stop(fleet: Fleet, task: Task, reason: str) -> None:
    if task.cancel_reason is None:
        task.cancel_reason, task.cancel_ends_at_ms = reason, fleet.now() + fleet.limits.expiry_grace_ms
        task.look_at_ms = min(task.look_at_ms, task.cancel_ends_at_ms)
    fleet.wake(task)


def bury(fleet: Fleet, task: Task, code: str, why: str) -> None:
    worker = task.lease.worker if task.lease else ""
    tenant = task.request.tenant
    fleet.dead[task.id] = DeadLetter(task.id, task.trace_id, task.pool, code, why, worker, tenant, fleet.now())
    fleet.tell_others(Kind.DEAD, task, code=code, why=why)


def arrived(fleet: Fleet, task: Task, awaited: str) -> None:
    """One thing less that the task waits for, if it does."""
    if awaited not in task.waits_for:
        return
    task.waits_for.remove(awaited)
    if task.state is State.WAITING and (not task.waits_for or task.wakes_at_first):
        fleet.requeue(task, IS_THERE)
    elif task.state is State.RUNNING and not task.waits_for:
        fleet.tell(task, reason=IS_THERE)


def _end_tree(fleet: Fleet, task: Task, result: TaskResult, message: bytes) -> None:
    task.waits_for.clear()
    stop(fleet, task.children, "its parent ended")
    _close(fleet, task, result, message)


def _result_of_queue(fleet: Fleet, task: Task, code: ErrorCode, text: str) -> TaskResult:
    task.finished_at_ms = fleet.now()  # read once, as a script does: its record and its result tell one length
    took_ms = 0 if task.started_at_ms is None else max(0, task.finished_at_ms - task.started_at_ms)
    return TaskResult(
        trace_id=task.trace_id,
        task_id=task.id,
        attempt=task.attempt,
        status=CODES[code].state,
        errors=(ErrorInfo.of(code, text, HINTS.get(code, "")),),
        metrics=Metrics(cost_microusd=task.spent_microusd, latency_ms=took_ms),
        resume_token=task.session_id if task.checkpoint else "",
    )


def _close(fleet: Fleet, task: Task, result: TaskResult, message: bytes) -> None:
    """The one terminal move."""
    was_in_line = task.in_line
    fleet.enter(task, result.status)
    if was_in_line:
        fleet.sweep(task.pool)
    fleet.ended += 1
    task.result, task.ended_as = message, fleet.ended
    if task.finished_at_ms is None:
        task.finished_at_ms = fleet.now()
    fleet.tell_others(Kind.ENDED, task)
    fleet.append(task, result)
    session = fleet.sessions[task.session_id]
    session.holder = None
    session.inbox.clear()
    if parent := fleet.tasks.get(task.request.parent_task_id or ""):
        arrived(fleet, parent, task.id)
