"""Tasks coming in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from envelope.deadline import expires_at_ms
from envelope.messages import TaskRequest

from ..admission import refusal, work_of
from ..base import Allotment, Handle, Lease
from .fleet import Fleet
from .tasks import Task, Trace

Signed = tuple[TaskRequest, bytes]


def submit(fleet: Fleet, batch: Sequence[Signed], under: Lease | None) -> list[Handle]:
    if under:
        fleet.held(under)
    _check(fleet, [request for request, _ in batch])
    handles = [_first(fleet, request) or _accept(fleet, request, envelope) for request, envelope in batch]
    fleet.changed()
    return handles


def _first(fleet: Fleet, request: TaskRequest) -> Handle | None:
    """The task that stands for this request already, when there is one."""
    if request.task_id in fleet.tasks:
        return Handle(request.task_id, request.trace_id)
    until, handle, work = fleet.once.get((request.tenant, request.idempotency_key), (0, None, ""))
    if not request.idempotency_key or handle is None or until <= fleet.now():
        return None
    if work != work_of(request):
        raise refusal(request, "key", handle.task_id)
    return handle


def _check(fleet: Fleet, requests: Sequence[TaskRequest]) -> None:
    """All of them, before any is accepted; what is known already was checked when it came first."""
    coming: dict[str, TaskRequest] = {}
    keys: dict[tuple[str, str], TaskRequest] = {}
    for request in requests:
        key = (request.tenant, request.idempotency_key)
        if key in keys and work_of(keys[key]) != work_of(request):
            raise refusal(request, "key", keys[key].task_id)
        if request.task_id in coming or key in keys or _first(fleet, request):
            continue
        if abs(fleet.now() - request.created_at_ms) > fleet.limits.replay_window_ms:
            raise refusal(request, "created", str(fleet.now()))
        _check_parent(fleet, request, coming)
        _check_session(fleet, request, coming)
        _check_bounds(fleet, request, coming)
        coming[request.task_id] = request
        if request.idempotency_key:
            keys[key] = request


def _check_parent(fleet: Fleet, request: TaskRequest, coming: dict[str, TaskRequest]) -> None:
    above, depth = request.parent_task_id, 0
    while above in coming:
        above, depth = coming[above].parent_task_id, depth + 1
    if above:
        parent = fleet.tasks.get(above)
        if parent is None or not parent.live or parent.cancel_reason is not None:
            raise refusal(request, "parent")
        depth += parent.depth + 1
    if depth > fleet.limits.max_depth:
        raise refusal(request, "depth", str(fleet.limits.max_depth))


def _check_session(fleet: Fleet, request: TaskRequest, coming: dict[str, TaskRequest]) -> None:
    """Of another tenant's session nobody learns that it is there."""
    token = request.resume_token
    if not token:
        return
    if taken := next((other.task_id for other in coming.values() if other.resume_token == token), None):
        raise refusal(request, "busy", taken)
    session = fleet.sessions.get(token)
    if session is None or session.tenant != request.tenant:
        raise refusal(request, "session")
    if session.holder:
        raise refusal(request, "busy", session.holder)
    if session.checkpoint is None:
        raise refusal(request, "session")


def _check_bounds(fleet: Fleet, request: TaskRequest, coming: Mapping[str, TaskRequest]) -> None:
    allotted = fleet.allotments.get(request.tenant, Allotment())
    most = fleet.limits.max_tree if allotted.max_tree is None else allotted.max_tree
    trace = fleet.traces.get(request.trace_id)
    in_tree = len(trace.tasks) if trace else 0
    if in_tree + sum(other.trace_id == request.trace_id for other in coming.values()) >= most:
        raise refusal(request, "tree", str(most))
    most = fleet.limits.max_queued if allotted.max_queued is None else allotted.max_queued
    if len(fleet.tasks) + len(coming) < most:
        return  # nobody needs to count
    in_line = sum(task.in_line and task.request.tenant == request.tenant for task in fleet.tasks.values())
    if in_line + sum(other.tenant == request.tenant for other in coming.values()) >= most:
        raise refusal(request, "queued", str(most))


def _accept(fleet: Fleet, request: TaskRequest, envelope: bytes) -> Handle:
    now = fleet.now()
    parent = fleet.tasks.get(request.parent_task_id or "")
    driver = parent or fleet.tasks.get(request.batch_id)  # may go on after a restart, and look for its own
    limit = driver.expires_at_ms if driver else None
    task = Task(request, envelope, now, expires_at_ms(now, request.deadline_ms, parent_expires_at_ms=limit))
    task.look_at_ms = task.expires_at_ms
    fleet.tasks[task.id] = task
    session = fleet.sessions[task.session_id]
    session.holder, session.tenant = task.id, request.tenant
    session.last = task.id
    if parent:
        parent.children.append(task.id)
        task.depth = parent.depth + 1
    if request.idempotency_key:
        handle = Handle(task.id, task.trace_id, existing=True)
        until = max(now + fleet.limits.idempotency_ms, task.expires_at_ms, driver.expires_at_ms if driver else 0)
        fleet.once[request.tenant, request.idempotency_key] = (until, handle, work_of(request))
    _join_trace(fleet, task)
    fleet.lines[task.pool].put(task.flow, task.id)
    return Handle(task.id, task.trace_id)


def _join_trace(fleet: Fleet, task: Task) -> None:
    if task.trace_id in fleet.traces:
        fleet.traces[task.trace_id].tasks.append(task.id)
    else:
        fleet.traces[task.trace_id] = Trace(task.request.budget.max_cost_microusd, root=task.id, tasks=[task.id])
        fleet.tell(task)  # a stream that begins with anything else was trimmed
