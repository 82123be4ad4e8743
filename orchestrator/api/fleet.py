"""The fleet itself: agents, pools, workers; and whether this server is well."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from http import HTTPStatus
from typing import Any

from fastapi import APIRouter, Request

from envelope.agents import AgentCard, WorkerCard
from transport.errors import TransportError

from ..client import Muster
from .access import Viewer
from .problems import Problem
from .reading import BodyRoute

router = APIRouter(route_class=BodyRoute, tags=["fleet"])

READY_S = 2.0


@router.get("/v1/agents")
async def list_agents(caller: Viewer) -> list[AgentCard]:
    """Who can be asked for, as live workers offer them."""
    return await caller.muster.agents()


@router.get("/v1/workers")
async def list_workers(caller: Viewer) -> list[WorkerCard]:
    """Who is alive. The repositories that they have worked on are told to those who see all tenants."""
    cards = await caller.muster.workers()
    return cards if caller.seen_tenant is None else [card.model_copy(update={"projects": ()}) for card in cards]


@router.get("/v1/pools")
async def list_pools(caller: Viewer) -> list[dict[str, Any]]:
    """What waits and runs in each."""
    return [asdict(pool) for pool in await caller.muster.pools()]


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
