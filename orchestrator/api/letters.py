"""Dead letters: tasks that ended because nobody could do them."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Query, Response

from transport.base import DeadLetter
from transport.errors import NotFound

from .access import Caller, Operator
from .tasks import Accepted, Stopped, accepted

router = APIRouter(prefix="/v1/dead-letters", tags=["fleet"])

MAX_LISTED = 1000


@router.get("")
async def list_dead_letters(
    caller: Operator, limit: Annotated[int, Query(ge=1, le=MAX_LISTED)] = 100
) -> list[dict[str, Any]]:
    """Those of the caller's tenant among the fleet's latest 1,000, the latest first."""
    letters = await caller.muster.dead_letters(limit=MAX_LISTED)
    theirs = await asyncio.gather(*(_is_theirs(letter, caller) for letter in letters))
    return [asdict(letter) for letter, is_theirs in zip(letters, theirs, strict=True) if is_theirs][:limit]


@router.post("/{task_id}/requeue", status_code=201)
async def requeue_letter(task_id: str, caller: Operator, response: Response) -> Accepted:
    """Do a dead task's work again, as a new task. Twice is once."""
    await caller.record(task_id)
    return accepted(await caller.muster.requeue(task_id, by=caller.name), response)


@router.delete("/{task_id}")
async def purge_letter(task_id: str, caller: Operator) -> Stopped:
    """Take a task off the list; what is known of it stays until retention."""
    await caller.record(task_id)
    return Stopped(stopped=await caller.muster.purge([task_id], by=caller.name))


async def _is_theirs(letter: DeadLetter, caller: Caller) -> bool:
    """The list outlives what is known of its tasks; whose those were only who sees all may guess."""
    try:
        return caller.sees(await caller.muster.record(letter.task_id))
    except NotFound:
        return caller.seen_tenant is None
