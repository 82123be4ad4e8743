"""Work that only looks: what a stranger may cause, by a pull request from a fork or the words of an issue.

It is held by its scope, which holds no grant to edit and no way out, and which narrows down the tree like any other.
The client narrows at submission; an orchestrator submits nothing beyond the scope of what it drives.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from typing import Any, Protocol, TypeVar

from envelope.ids import CONTENT, content_key, digest_of
from envelope.messages import NOT_AT_ALL, TaskRequest, Workspace
from envelope.scope import common
from transport.base import Transport
from transport.errors import NotFound

from .fanout.spec import FanoutParams
from .looking import READ_SCOPE, STEERS, refuse_write
from .prompting import going_on, listener
from .settings import Settings
from .submit import BATCH, DRIVERS, EVAL, FANOUT, RUN, GoalParams, GoalStep, is_goal, params_of, under_key

READS_ONLY = "no gate was run: this is read-only, and a gate proves changes"


class _Client(Protocol):
    settings: Settings


C = TypeVar("C", bound=_Client)


def looking_only(client: C) -> C:
    """The same client, which shares all that it stands on, with settings that let it only look."""
    twin = copy(client)
    twin.settings = client.settings.model_copy(update={"read_only": True})
    return twin


def narrowed(requests: Sequence[TaskRequest], settings: Settings) -> Sequence[TaskRequest]:
    """What may be submitted under these settings."""
    return [as_read_only(request) for request in requests] if settings.read_only else requests


def as_read_only(request: TaskRequest) -> TaskRequest:
    """The same work, narrowed to looking. `WouldWrite` for what makes no sense without more.

    Its key is another, and so are those of all that it starts (`TaskRequest.read_only`): what a stranger had looked at
    stands for nobody's work, nor the other way round.
    """
    narrowed: dict[str, Any] = {
        "auth_scope": common(READ_SCOPE, request.auth_scope),
        "workspace": _workspace(request.workspace),
        "read_only": True,
    }
    narrow_params = _PARAMS.get(request.agent) if request.recipient == DRIVERS else None
    if narrow_params is not None:
        narrowed["input"] = request.input.model_copy(update={"params": narrow_params(request)})
    made = request.model_copy(update=narrowed)
    return under_key(made, _key(request.idempotency_key)) if request.idempotency_key else made


def _key(key: str) -> str:
    """Of a caller's own name for the work another name: the queue compares what it stands for."""
    return content_key("read-only", key) if key.startswith(CONTENT) else f"read-only:{digest_of(key)}"


async def require_own_sessions(transport: Transport, requests: Sequence[TaskRequest]) -> None:
    """`WouldWrite` for work that goes on with a session, unless that was opened by work that only looks, too: what a
    stranger says there would be heard by whoever goes on with it."""
    for request in requests:
        if (session := _session_in(request)) and not await _is_of_looking(transport, session, request.tenant):
            refuse_write("an earlier session, which may write, would hear this", "begin a new one")


async def require_stoppable(transport: Transport, task_id: str) -> None:
    """`WouldWrite` for a task of work that may write: it is not for a stranger to say that this is not done."""
    if not _only_looks(await _line_of(transport, task_id)):
        refuse_write(STEERS)


async def require_resumable(transport: Transport, task_id: str) -> None:
    """As a call of `resume` would be refused: `WouldWrite`, or `BadInput` for what has no session."""
    request = going_on(await listener(transport, task_id), "")
    await require_own_sessions(transport, [request])
    as_read_only(request)


async def require_repeatable(transport: Transport, task_id: str) -> None:
    """`WouldWrite` for a batch whose file does more than to look."""
    as_read_only(await transport.request(task_id))


def _session_in(request: TaskRequest) -> str:
    """A goal's is opened by its agent, and its driver has none itself."""
    return request.resume_token or (params_of(GoalParams, request).session if is_goal(request) else "")


async def _is_of_looking(transport: Transport, session: str, tenant: str) -> bool:
    """A session is named after the task that opened it."""
    try:
        line = await _line_of(transport, session)
    except NotFound:
        return False
    return line[0].tenant == tenant and _only_looks(line)


async def _line_of(transport: Transport, task_id: str) -> list[TaskRequest]:
    """The task and all that it works for: up to the root of its trace, and from a shard to its batch.

    Alone it says too little: of work that may write, what proves it and what looks things up for it may not.
    """
    line = [await transport.request(task_id)]
    while above := line[-1].parent_task_id or line[-1].batch_id:
        line.append(await transport.request(above))
    return line


def _only_looks(line: Sequence[TaskRequest]) -> bool:
    return all(set(each.auth_scope) <= set(common(READ_SCOPE, each.auth_scope)) for each in line)


def require_read_only(request: TaskRequest) -> None:
    """`WouldWrite` unless it is what `as_read_only` makes."""
    if common(READ_SCOPE, request.auth_scope) != request.auth_scope:
        refuse_write("a task asks for more than to look", "submit it read-only: MUSTER_READ_ONLY=1, or --read-only")
    as_read_only(request)


def _workspace(workspace: Workspace | None) -> Workspace | None:
    """Without the trust that a person has in the repository: not even its agents are looked at."""
    if workspace is None:
        return None
    if workspace.setup:
        refuse_write("setup commands would be run with a way to the package index")
    if workspace.credentials:
        refuse_write(f"the credentials {workspace.credentials!r} would be used")
    return workspace.model_copy(update={"trusted": NOT_AT_ALL})


def _of_goal(request: TaskRequest) -> dict[str, Any]:
    params = params_of(GoalParams, request)
    if params.gate and not params.session:
        refuse_write("a gate proves changes")
    narrowed = {
        "gate": (),  # that a session had which was copied for looking
        "ungated": READS_ONLY if params.gate else params.ungated,
        "auth_scope": common(READ_SCOPE, params.auth_scope),
        "then": _step(params.then),
        "planner": _step(params.planner),
        "roster": tuple(step for step in map(_step, params.roster) if step),
    }
    return params.model_copy(update=narrowed).model_dump(mode="json")


def _step(step: GoalStep | None) -> GoalStep | None:
    return step and step.model_copy(update={"auth_scope": common(READ_SCOPE, step.auth_scope)})


def _of_fanout(request: TaskRequest) -> dict[str, Any]:
    params = params_of(FanoutParams, request)
    return params.model_copy(update={"auth_scope": common(READ_SCOPE, params.auth_scope)}).model_dump(mode="json")


def _of_batch(request: TaskRequest) -> dict[str, Any]:
    from .batch.looking import require_looking  # only batches need their files' form, which takes long to load
    from .batch.request import BatchParams

    require_looking(params_of(BatchParams, request).spec)
    return request.input.params


def _of_eval(_: TaskRequest) -> dict[str, Any]:
    refuse_write("a suite's samples change code, to be judged by it")


_PARAMS: Mapping[str, Callable[[TaskRequest], dict[str, Any]]] = {
    RUN: _of_goal,
    FANOUT: _of_fanout,
    BATCH: _of_batch,
    EVAL: _of_eval,
}
