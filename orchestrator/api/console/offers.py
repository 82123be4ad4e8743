"""Which forms a page about a task offers: those that would not be refused to who looks at it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping

from transport.base import Transport

from ...errors import BadInput
from ...looking import STEERS, WouldWrite, refuse_write
from ...read_only import require_repeatable, require_resumable, require_stoppable
from ..caller import Caller
from ..tokens import Right

Check = Callable[[Transport, str], Awaitable[None]]


async def _never(_: Transport, _task_id: str) -> None:
    refuse_write(STEERS)


# What a form needs; and when it is refused, by work that only looks, to who may do no more than that.
FORMS: Mapping[str, tuple[Right, Check]] = {
    "prompt": (Right.SUBMIT, _never),
    "resume": (Right.SUBMIT, require_resumable),
    "replan": (Right.SUBMIT, _never),
    "cancel": (Right.SUBMIT, require_stoppable),
    "retry": (Right.SUBMIT, require_repeatable),
    "budget": (Right.APPROVE, _never),
    "publish": (Right.PUBLISH, _never),
}
OF_TASKS = ("prompt", "resume", "replan", "cancel", "budget")
OF_BATCHES = ("retry", "cancel", "publish")


async def offered(caller: Caller, task_id: str, forms: Collection[str]) -> frozenset[str]:
    """Those of the forms that are theirs. One that the task is in no state for says so when it is sent."""
    return frozenset([name for name in forms if await _is_theirs(name, caller, task_id)])


async def _is_theirs(name: str, caller: Caller, task_id: str) -> bool:
    right, check = FORMS[name]
    if right not in caller.rights:
        return False
    if not caller.token.read_only:
        return True
    try:
        await check(caller.muster.transport, task_id)
    except (WouldWrite, BadInput):
        return False
    return True
