"""The fleet at a glance: pools, models, what is asked of people, what goes on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping

from fastapi import APIRouter, Request, Response

from ...client import Muster
from ...overview import Overview, Overviews
from ..caller import Caller
from .live import live
from .rendering import fragment, page
from .rooms import Looks
from .visitor import Viewer

router = APIRouter()

LOOK_EVERY_S = 1.0
PARTS = ("headline", "asks", "going", "pools", "models", "workers")


@router.get("/")
async def show_fleet(request: Request, caller: Viewer) -> Response:
    seen = await Overviews(caller.muster, caller.seen_tenant).look()
    return page(request, "fleet.html", parts=parts_of(seen))


@router.get("/live")
async def follow_fleet(request: Request, caller: Viewer) -> Response:
    return live(request, caller, f"fleet:{caller.token.tenant}", looks_of(caller))


def looks_of(caller: Caller) -> Looks:
    return _every(LOOK_EVERY_S, caller.muster, caller.seen_tenant)


def _every(pause_s: float, muster: Muster, tenant: str | None) -> Callable[[], AsyncGenerator[Mapping[str, str]]]:
    async def looks() -> AsyncGenerator[Mapping[str, str]]:
        overviews = Overviews(muster, tenant)
        while True:
            yield parts_of(await overviews.look())
            await asyncio.sleep(pause_s)

    return looks


def parts_of(seen: Overview) -> dict[str, str]:
    return {f"fleet-{name}": fragment(f"fleet/{name}.html", seen=seen) for name in PARTS}
