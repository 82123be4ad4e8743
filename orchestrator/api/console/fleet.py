"""The fleet at a glance: pools, models, what is asked of people, what goes on."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field

from fastapi import APIRouter, Request, Response

from ...lru import LruCache
from ...overview import Overview, Overviews
from ..caller import Caller
from .live import live
from .rendering import fragment, page
from .rooms import Looks, Pace
from .visitor import Viewer

router = APIRouter()

PACE = Pace(every_s=1.0)
MAX_TENANTS = 32
PARTS = ("headline", "asks", "going", "pools", "models", "workers")


@dataclass(slots=True)
class Kept:
    """By tenant what was read for its pictures: a page pays for what has happened since the last one, not for all."""

    by_tenant: LruCache[str | None, Overviews] = field(default_factory=lambda: LruCache(MAX_TENANTS))

    def of(self, caller: Caller) -> Overviews:
        tenant = caller.seen_tenant
        return self.by_tenant.get(tenant) or self.by_tenant.put(tenant, Overviews(caller.muster, tenant))


@router.get("/")
async def show_fleet(request: Request, caller: Viewer) -> Response:
    kept: Kept = request.app.state.fleets
    return page(request, "fleet.html", parts=parts_of(await kept.of(caller).look()))


@router.get("/live")
async def follow_fleet(request: Request, caller: Viewer) -> Response:
    kept: Kept = request.app.state.fleets
    return live(request, caller, f"fleet:{caller.token.tenant}", _looks(kept.of(caller)), pace=PACE)


def _looks(overviews: Overviews) -> Looks:
    async def looks() -> AsyncGenerator[Mapping[str, str]]:
        while True:
            yield parts_of(await overviews.look())

    return looks


def parts_of(seen: Overview) -> dict[str, str]:
    return {f"fleet-{name}": fragment(f"fleet/{name}.html", seen=seen) for name in PARTS}
