"""What a submission must keep to beside its schema, the same for every implementation."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from envelope.messages import TaskRequest
from envelope.scope import narrow

from .errors import NotFound, Refused


def parent_gone(request: TaskRequest) -> Refused:
    return Refused(
        "parent_task_id",
        f"the task {request.parent_task_id} is not there, has ended or is being cancelled",
        hint="submit it as a task of its own, without a parent",
    )


async def check_scopes(requests: Sequence[TaskRequest], load: Callable[[str], Awaitable[TaskRequest]]) -> None:
    """`ScopeExceeded` when a child asks for more than its parent holds; `Refused` when the parent is not known.

    Parents are read once, and may be in the same batch, before their children.
    """
    known: dict[str, TaskRequest] = {}
    for request in requests:
        if request.parent_task_id:
            parent = known.get(request.parent_task_id)
            if parent is None:
                try:
                    parent = known[request.parent_task_id] = await load(request.parent_task_id)
                except NotFound as error:
                    raise parent_gone(request) from error
            narrow(parent.auth_scope, request.auth_scope)
        known[request.task_id] = request
