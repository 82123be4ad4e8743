"""Budgets of traces and tenants, and tenants' shares of the fleet."""

from __future__ import annotations

from dataclasses import asdict
from http import HTTPStatus
from typing import Annotated, Self

from fastapi import APIRouter
from pydantic import BaseModel, Field

from transport.base import Allotment
from transport.errors import NotFound
from transport.money import Ledger

from .access import Caller, Operator, Viewer
from .problems import Problem
from .reading import BodyRoute
from .tasks import Body

router = APIRouter(route_class=BodyRoute, prefix="/v1/tenants", tags=["budgets"])

Amount = Annotated[int, Field(ge=0, le=10**12)]


class Cap(Body):
    cap_microusd: Amount


class TenantCap(Body):
    """None: as much as it likes."""

    cap_microusd: Amount | None


class Share(Body):
    """`weight`: of the starts; `max_running`: tasks at once, None: no cap.

    `max_queued`: tasks in line; `max_tree`: tasks of one trace. None: as for everybody.
    """

    weight: Annotated[float, Field(gt=0)] = 1.0
    max_running: Annotated[int, Field(ge=0)] | None = None
    max_queued: Annotated[int, Field(ge=0)] | None = None
    max_tree: Annotated[int, Field(ge=0)] | None = None


class Money(BaseModel):
    """`cap_microusd` is None where there is no cap."""

    spent_microusd: int
    reserved_microusd: int
    cap_microusd: int | None

    @classmethod
    def of(cls, ledger: Ledger) -> Self:
        return cls(
            spent_microusd=ledger.spent_microusd,
            reserved_microusd=ledger.reserved_microusd,
            cap_microusd=ledger.cap_microusd,
        )


@router.get("/{tenant:path}/budget")
async def show_tenant_budget(tenant: str, caller: Viewer) -> Money:
    """What a tenant has spent in all its traces since its beginning, what they have set aside, and its cap."""
    require_own(tenant, caller)
    return Money.of(await caller.muster.tenant_budget(tenant))


@router.put("/{tenant:path}/budget")
async def cap_tenant(tenant: str, cap: TenantCap, caller: Operator) -> Money:
    """Let a tenant spend up to this much in all its traces together, from now on. Who waits for more goes on.

    More than it may spend now only by a token of all tenants: nobody raises its own.
    """
    require_own(tenant, caller)
    now = (await caller.muster.tenant_budget(tenant)).cap_microusd
    is_more = now is not None and (cap.cap_microusd is None or cap.cap_microusd > now)
    is_own = caller.seen_tenant is not None
    if is_own and is_more:
        raise Problem(HTTPStatus.FORBIDDEN, "a tenant's cap is raised by who sees all", hint="a token of tenant *")
    # an operator may have lowered it since it was read
    return Money.of(await caller.muster.cap_tenant(tenant, cap.cap_microusd, by=caller.name, only_lower=is_own))


@router.get("/{tenant:path}/allotment")
async def show_allotment(tenant: str, caller: Viewer) -> Share:
    """What a tenant gets beside others; who was given nothing has the weight 1, and no cap."""
    require_own(tenant, caller)
    given = (await caller.muster.allotments()).get(tenant, Allotment())
    return Share(**asdict(given))


@router.put("/{tenant:path}/allotment")
async def allot(tenant: str, share: Share, caller: Operator) -> Share:
    """Say what a tenant gets beside others, from now on. For tokens of all tenants: nobody widens its own."""
    require_own(tenant, caller)
    if caller.seen_tenant is not None:
        raise Problem(HTTPStatus.FORBIDDEN, "a tenant's share is given by who sees all", hint="a token of tenant *")
    await caller.muster.allot(tenant, Allotment(**share.model_dump()), by=caller.name)
    return share


def require_own(tenant: str, caller: Caller) -> None:
    if not caller.token.sees(tenant):
        raise NotFound(f"there is no tenant {tenant!r}", hint="a token sees its own")
