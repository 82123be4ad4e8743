"""Dead letters: who looks at them, and what becomes of them. For operators, as in the API."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from .rendering import on_to, page
from .visitor import Operator, Overseer

router = APIRouter()

MOST = 200


@router.get("/dead-letters")
async def list_letters(request: Request, caller: Overseer) -> Response:
    letters = await caller.muster.transport.dead_letters(tenant=caller.seen_tenant, limit=MOST)
    return page(request, "dead_letters.html", letters=letters, may=caller.rights, most=MOST)


@router.post("/dead-letters/{task_id}/requeue")
async def requeue_letter(task_id: str, caller: Operator) -> Response:
    """On to the task that does the work again."""
    await caller.record(task_id)
    handle = await caller.muster.requeue(task_id, by=caller.name)
    return on_to(f"/tasks/{handle.task_id}")


@router.post("/dead-letters/{task_id}/purge")
async def purge_letter(task_id: str, caller: Operator) -> Response:
    await caller.record(task_id)
    await caller.muster.purge([task_id], by=caller.name)
    return on_to("/dead-letters")
