"""Rules for submissions beside their schema, the same for every implementation."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Any

from envelope.errors import MusterError
from envelope.ids import CONTENT, digest_of
from envelope.messages import TaskRequest, TaskResult
from envelope.near import close_names
from envelope.scope import narrow
from envelope.work import work_in

from .base import Lease
from .bounds import MAX_REQUESTS, MAX_REQUESTS_BYTES
from .errors import Busy, NotFound, QueueFull, Refused, TransportError
from .limits import DAY_MS, Limits

# Pools that a fleet has without anybody announcing them.
DEFAULT_POOLS = ("orchestrator", "explore", "general", "build")

# Of a tenant whose line is full.
LINE_RETRY_S = 5.0

IN_PARTS = "submit them in parts; the same key is the same task"


def flow_of(request: TaskRequest) -> str:
    """What tasks have in common that wait for one another in the fair queue: the shards of a batch, else a trace."""
    return request.batch_id if request.batch_id and not request.parent_task_id else request.trace_id


# Of a workspace: whether its submitter trusts the repository, and may reach its address.
_BESIDE_CODE = {"trusted", "public"}
# Of parameters: the agents that live workers offer for the steps of a plan.
_BESIDE_PARAMS = {"roster"}
WORK_DIGITS = 32


def work_of(request: TaskRequest) -> str:
    """A digest of what a key stands for, to be compared where the key comes again.

    Empty where nothing is compared: without a key, and for a key that is a digest of the work itself
    (`envelope.work.key_of_work`).
    """
    if not request.idempotency_key or request.idempotency_key.startswith(CONTENT):
        return ""
    work = work_in(request)
    if request.workspace:
        work["workspace"] = _without(work["workspace"], _BESIDE_CODE)
    if request.input.params:
        work["input"]["params"] = _without(work["input"]["params"], _BESIDE_PARAMS)
    return digest_of(json.dumps(work, sort_keys=True))[:WORK_DIGITS]


def _without(fields: dict[str, Any], names: set[str]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if name not in names}


def refusal(request: TaskRequest, why: str, what: str = "") -> TransportError:
    """Why the queue does not take a request: one of the words that `submit.lua` gives, and what it says to it."""
    if why == "busy":
        return Busy(request.resume_token, what)
    if why == "queued":
        return QueueFull(
            f"the tenant {request.tenant} would have more than {what} tasks in line",
            retry_after_s=LINE_RETRY_S,
            hint="come again when some have started, in smaller parts; or let it have more: "
            f"`muster pool allot {request.tenant} --max-queued N`",
        )
    field, message, hint = _REFUSALS[why]
    return Refused(field, message.format(request=request, what=what), hint=hint.format(request=request, what=what))


_REFUSALS = {
    "parent": (
        "parent_task_id",
        "the task {request.parent_task_id} is not there, has ended or is being cancelled",
        "submit it as a task of its own, without a parent",
    ),
    "trace": ("trace_id", "a child lives in the trace of its parent, {what}", "leave trace_id to `task_request`"),
    "session": (
        "resume_token",
        "there is no session {request.resume_token}",
        "sessions are kept for 7 days after their last task's end, by default",
    ),
    "created": (
        "created_at_ms",
        "the request was made at {request.created_at_ms}, too far from the queue's time, {what}",
        "make a new one; if it is new, compare this machine's clock with the Redis server's",
    ),
    "deadline": (
        "deadline_ms",
        "{request.deadline_ms} ms are more than a task of this fleet may take, which is {what} days",
        "let the fleet keep things for longer: MUSTER_RETENTION_S of all its programs, up to 30 days",
    ),
    "key": (
        "idempotency_key",
        "the key {request.idempotency_key!r} stands for the task {what}, which is other work",
        "take that task, or submit this work under a key of its own",
    ),
    "pool": ("recipient", "there is no pool {request.recipient!r}", "{what}"),
    "tree": (
        "trace_id",
        "the trace {request.trace_id} would have more than {what} tasks",
        "begin another trace, or give the tenant more: `muster pool allot {request.tenant} --max-tree N`",
    ),
    "depth": (
        "parent_task_id",
        "the task would have more than {what} tasks above it",
        "submit it below a task that is nearer to the root, or as a task of its own",
    ),
    "home": (
        "trace_id",
        "a trace that starts under an idempotency key or goes on with a session must live beside it",
        "make the id with new_trace_id(near=…) or new_trace_id(key=…), or leave it to `task_request`",
    ),
}


def check_deadlines(requests: Sequence[TaskRequest], limits: Limits) -> None:
    for request in requests:
        if request.deadline_ms > limits.max_deadline_ms:
            raise refusal(request, "deadline", f"{limits.max_deadline_ms / DAY_MS:g}")


def too_large(request: TaskRequest, error: MusterError) -> Refused:
    """Of a request that cannot travel, the field that weighs most is named."""
    sizes = {name: len(str(getattr(request, name))) for name in request.model_fields_set}
    return Refused(max(sizes, key=lambda name: sizes[name]), error.message, hint=error.hint)


def check_pools(requests: Sequence[TaskRequest], known: Collection[str]) -> None:
    """`Refused` for a pool that nobody serves and nobody has configured."""
    for request in requests:
        if request.recipient not in known:
            near = close_names(request.recipient, known)
            hint = f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(sorted(known))}"
            raise refusal(request, "pool", hint)


def check_trace(trace_id: str, after: str) -> None:
    """`NotFound` for what is no trace id, `Refused` for what is no id of an entry."""
    if not re.fullmatch("[0-9a-f]{32}", trace_id):
        raise NotFound(
            f"there is no trace {trace_id}", hint="a trace has 32 hex digits; `muster task list` shows tasks"
        )
    if not re.fullmatch("[0-9]{1,20}(-[0-9]{1,20})?", after) or any(int(part) >= 2**64 for part in after.split("-")):
        raise Refused("after", f"{after!r} is no id of an entry", hint="take the id of an entry that was read")


def check_size(requests: Sequence[TaskRequest]) -> None:
    if len(requests) > MAX_REQUESTS:
        raise Refused("requests", f"{len(requests)} are over the limit of {MAX_REQUESTS} in one step", hint=IN_PARTS)


def check_bytes(envelopes: Sequence[bytes]) -> None:
    size_bytes = sum(map(len, envelopes))
    if size_bytes > MAX_REQUESTS_BYTES:
        raise Refused("requests", f"{size_bytes} bytes are over the limit of {MAX_REQUESTS_BYTES}", hint=IN_PARTS)


def check_result(lease: Lease, result: TaskResult) -> None:
    """A result is of the very attempt that stores it."""
    if (result.task_id, result.trace_id, result.attempt) != (lease.task_id, lease.trace_id, lease.attempt):
        raise Refused("result", f"it is of task {result.task_id}, attempt {result.attempt}, not of the lease")


async def check_parents(requests: Sequence[TaskRequest], load: Callable[[str], Awaitable[TaskRequest]]) -> None:
    """`ScopeExceeded` when a child asks for more than its parent holds; `Refused` when the parent is not known.

    Parents are read once, and may be in the same batch, before their children; of one that is on record already, the
    record counts, not its copy in the batch.
    """
    on_record: dict[str, TaskRequest | None] = {}
    known: dict[str, TaskRequest] = {}
    for request in requests:
        if request.parent_task_id:
            if request.parent_task_id not in on_record:
                on_record[request.parent_task_id] = await _loaded(request.parent_task_id, load)
            parent = on_record[request.parent_task_id] or known.get(request.parent_task_id)
            if parent is None:
                raise refusal(request, "parent")
            if parent.trace_id != request.trace_id:
                raise refusal(request, "trace", parent.trace_id)
            narrow(parent.auth_scope, request.auth_scope)
        known[request.task_id] = request


async def _loaded(task_id: str, load: Callable[[str], Awaitable[TaskRequest]]) -> TaskRequest | None:
    try:
        return await load(task_id)
    except NotFound:
        return None
