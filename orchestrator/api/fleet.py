"""The fleet itself: agents, pools, workers, dead letters; and whether this server is well."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from http import HTTPStatus
from typing import Any

from fastapi import APIRouter, Request

from envelope.agents import AgentCard, WorkerCard
from transport.errors import NotFound, TransportError

from ..catalogue import agents_of
from ..client import Muster
from .access import Caller, Operator, Viewer
from .problems import Problem

router = APIRouter(tags=["fleet"])

READY_S = 2.0
LETTERS, LETTERS_TOLD = 1_000, 100


@router.get("/v1/agents")
async def list_agents(caller: Viewer) -> list[AgentCard]:
    """Who can be asked for, as live workers offer them."""
    return list(agents_of(await caller.muster.workers()).values())


@router.get("/v1/workers")
async def list_workers(caller: Viewer) -> list[WorkerCard]:
    """Who is alive. The repositories that they have worked on are told to those who see all tenants."""
    cards = await caller.muster.workers()
    return cards if caller.seen_tenant is None else [card.model_copy(update={"projects": ()}) for card in cards]


@router.get("/v1/pools")
async def list_pools(caller: Viewer) -> list[dict[str, Any]]:
    """What waits and runs in each."""
    return [asdict(pool) for pool in await caller.muster.pools()]


@router.get("/v1/dead-letters")
async def list_dead_letters(caller: Operator) -> list[dict[str, Any]]:
    """Tasks of the caller's tenant that ended because nobody could do them, among the fleet's latest 1,000."""
    letters = await caller.muster.dead_letters(limit=LETTERS)
    theirs = await asyncio.gather(*(_is_for(caller, letter.task_id) for letter in letters))
    return [asdict(letter) for letter, is_theirs in zip(letters, theirs, strict=True) if is_theirs][:LETTERS_TOLD]


async def _is_for(caller: Caller, task_id: str) -> bool:
    if caller.seen_tenant is None:
        return True
    try:
        return caller.sees(await caller.muster.record(task_id))
    except NotFound:  # past its retention: nobody can say whose it was
        return False


@router.get("/healthz", include_in_schema=False)
async def healthz() -> dict[str, str]:
    return {"status": "ok"}


@router.get("/readyz", include_in_schema=False)
async def readyz(request: Request) -> dict[str, str]:
    """503 while the fleet's Redis does not answer."""
    muster: Muster = request.app.state.muster
    try:
        async with asyncio.timeout(READY_S):
            await muster.transport.now_ms()
    except (TransportError, TimeoutError) as e:
        raise Problem(HTTPStatus.SERVICE_UNAVAILABLE, "the fleet's Redis does not answer") from e
    return {"status": "ready"}
