"""What tenants may spend."""

from __future__ import annotations

from typing import Annotated, Self

from fastapi import APIRouter
from pydantic import BaseModel, Field

from transport.errors import NotFound
from transport.money import Ledger

from .access import Caller, Operator, Viewer
from .tasks import Body

router = APIRouter(prefix="/v1/tenants", tags=["budgets"])

Amount = Annotated[int, Field(ge=0, le=10**12)]


class Cap(Body):
    cap_microusd: Amount


class TenantCap(Body):
    """None: as much as it likes."""

    cap_microusd: Amount | None


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


@router.get("/{tenant}/budget")
async def show_tenant_budget(tenant: str, caller: Viewer) -> Money:
    """What a tenant has spent in all its traces since its beginning, what they have set aside, and its cap."""
    _require_own(tenant, caller)
    return Money.of(await caller.muster.tenant_budget(tenant))


@router.put("/{tenant}/budget")
async def cap_tenant(tenant: str, cap: TenantCap, caller: Operator) -> Money:
    """Let a tenant spend up to this much in all its traces together, from now on. Who waits for more goes on."""
    _require_own(tenant, caller)
    return Money.of(await caller.muster.cap_tenant(tenant, cap.cap_microusd, by=caller.name))


def _require_own(tenant: str, caller: Caller) -> None:
    if not caller.token.sees(tenant):
        raise NotFound(f"there is no tenant {tenant!r}", hint="a token sees its own")
