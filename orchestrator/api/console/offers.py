"""Which forms a page about a task offers: those that would not be refused to who looks at it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping

from envelope.errors import MusterError
from transport.base import Transport
from transport.errors import Unreachable

from ...read_only import require_repeatable, require_resumable, require_stoppable
from ..caller import Caller
from ..tokens import Right

Check = Callable[[Transport, str], Awaitable[None]]

NEEDS: Mapping[str, Right] = {
    "prompt": Right.SUBMIT,
    "resume": Right.SUBMIT,
    "replan": Right.SUBMIT,
    "cancel": Right.SUBMIT,
    "retry": Right.SUBMIT,
    "budget": Right.APPROVE,
    "publish": Right.PUBLISH,
}
OF_TASKS = ("prompt", "resume", "replan", "cancel", "budget")
OF_BATCHES = ("retry", "cancel", "publish")
# Who only looks is refused every other form, whatever the task; and these by what it is.
OF_LOOKING: Mapping[str, Check] = {
    "resume": require_resumable,
    "cancel": require_stoppable,
    "retry": require_repeatable,
}


async def offered(caller: Caller, task_id: str, forms: Collection[str]) -> frozenset[str]:
    """Those of the forms that are theirs. One that the task is in no state for says so when it is sent."""
    return frozenset([name for name in forms if await _is_theirs(name, caller, task_id)])


async def _is_theirs(name: str, caller: Caller, task_id: str) -> bool:
    if NEEDS[name] not in caller.rights:
        return False
    if not caller.only_looks:
        return True
    check = OF_LOOKING.get(name)
    return check is not None and await _lets(check, caller.muster.transport, task_id)


async def _lets(check: Check, transport: Transport, task_id: str) -> bool:
    """Whatever else is wrong with the task (a request that is gone, or signed with a key that was retired), its page
    is shown."""
    try:
        await check(transport, task_id)
    except Unreachable:
        raise
    except MusterError:
        return False
    return True
