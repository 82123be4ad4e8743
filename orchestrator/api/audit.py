"""Who decided what."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query
from pydantic import BaseModel

from ..audit import told, verified
from ..sealing import read_ends
from .access import Caller, Operator
from .reading import BodyRoute

router = APIRouter(route_class=BodyRoute, prefix="/v1/audit", tags=["audit"])

MOST = 10_000


class Broken(BaseModel):
    cell: int
    seq: int
    why: str


class Checked(BaseModel):
    """`breaks` has the first broken entry of each chain, `unsigned` the answers that nobody vouches for."""

    entries: int
    sealed: int
    breaks: list[Broken]
    unsigned: list[Broken]


@router.get("")
async def list_audit(
    caller: Operator,
    subject: Annotated[str, Query(max_length=200, description="Of this task or trace alone.")] = "",
    limit: Annotated[int, Query(ge=1, le=1_000)] = 100,
) -> list[dict[str, Any]]:
    """The latest decisions first: those of the caller's tenant, among the fleet's latest 10,000."""
    entries = [told(entry) for entry in await caller.muster.transport.audit.latest(MOST)]
    return [one for one in entries if _is_for(caller, one) and subject in ("", one.get("subject"))][:limit]


@router.get("/verify")
async def verify_audit(caller: Operator) -> Checked:
    """Whether the log is whole, of all tenants."""
    found = await verified(
        caller.muster.transport, ends=await read_ends(caller.muster.transport, caller.muster.settings)
    )
    breaks = [Broken(cell=one.cell, seq=one.seq, why=one.why) for one in found.breaks]
    unsigned = [Broken(cell=entry.cell, seq=entry.seq, why=why) for entry, why in found.unsigned]
    return Checked(entries=found.entries, sealed=found.sealed, breaks=breaks, unsigned=unsigned)


def _is_for(caller: Caller, entry: dict[str, Any]) -> bool:
    return caller.token.sees(str(entry.get("tenant", "")))
