"""Dead letters: tasks that ended because nobody could do them."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Query, Response

from transport.limits import MAX_DEAD_LETTERS

from .access import Operator
from .reading import BodyRoute
from .tasks import Accepted, Stopped, accepted

router = APIRouter(route_class=BodyRoute, prefix="/v1/dead-letters", tags=["fleet"])


@router.get("")
async def list_dead_letters(
    caller: Operator, limit: Annotated[int, Query(ge=1, le=MAX_DEAD_LETTERS)] = 100
) -> list[dict[str, Any]]:
    """Those of the caller's tenant, the latest first. As many as `limit`: there may be more."""
    letters = await caller.muster.transport.dead_letters(tenant=caller.seen_tenant, limit=limit)
    return [asdict(letter) for letter in letters]


@router.post("/{task_id}/requeue", status_code=201)
async def requeue_letter(task_id: str, caller: Operator, response: Response) -> Accepted:
    """Do a dead task's work again, as a new task. Twice is once."""
    await caller.record(task_id)
    return accepted(await caller.muster.requeue(task_id, by=caller.name), caller, response)


@router.delete("/{task_id}")
async def purge_letter(task_id: str, caller: Operator) -> Stopped:
    """Take a task off the list; what is known of it stays until retention."""
    await caller.record(task_id)
    return Stopped(stopped=await caller.muster.purge([task_id], by=caller.name))
