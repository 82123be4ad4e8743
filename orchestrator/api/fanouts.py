"""One prompt for each of many items, over HTTP."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Response
from pydantic import Field

from envelope.asks import AskTerms
from envelope.budget import Budget
from envelope.messages import MAX_DEADLINE_MS, Name, Workspace
from envelope.scope import Scope

from ..fanout.items import MAX_ITEMS
from ..gathering import Policy, Want
from .access import Submitter
from .reading import BodyRoute
from .tasks import Accepted, Body, accepted, reachable

router = APIRouter(route_class=BodyRoute, prefix="/v1/fanouts", tags=["tasks"])


class NewFanout(Body):
    """`{item}` in the prompt stands for the item, `{name}` for a field of it. The budget is for all together."""

    agent: Name
    prompt: Annotated[str, Field(min_length=1)]
    items: Annotated[list[str | dict[str, Any]], Field(min_length=1, max_length=MAX_ITEMS, fail_fast=True)]
    gather: Policy = Policy.ALL
    quorum: Annotated[int, Field(ge=0)] = 0
    max_running: Annotated[int, Field(ge=1)] | None = None
    workspace: Workspace | None = None
    auth_scope: Scope | None = None
    budget: Budget | None = None
    deadline_ms: Annotated[int, Field(gt=0, le=MAX_DEADLINE_MS)] | None = None
    model: str = ""


@router.post("", status_code=201)
async def submit_fanout(fanout: NewFanout, caller: Submitter, response: Response) -> Accepted:
    """One task for each item; their answers meet in the result. The same again does only what did not complete."""
    request = await caller.muster.fanout(
        fanout.agent,
        fanout.prompt,
        fanout.items,
        want=Want(fanout.gather, fanout.quorum),
        max_running=fanout.max_running,
        workspace=reachable(fanout.workspace, caller),
        auth_scope=fanout.auth_scope,
        budget=fanout.budget,
        deadline_ms=fanout.deadline_ms,
        model=fanout.model,
        asks=AskTerms(),
        sender=caller.name,
        tenant=caller.tenant,
    )
    return accepted(await caller.muster.submit_repeatable(request), caller, response)
