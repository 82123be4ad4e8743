"""A fan-out as a task of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict, Unpack

from pydantic import Field

from envelope.agents import AgentCard
from envelope.asks import AskTerms
from envelope.budget import Budget
from envelope.ids import BlobRef
from envelope.messages import TaskInput, TaskRequest, Workspace
from envelope.scope import Scope
from transport.blobs.base import Blobs

from ..errors import BadInput
from ..gathering import Policy, Want
from ..settings import Settings
from ..submit import DRIVERS, FANOUT, GoalStep, keyed, scope_of, task_request
from ..uploads import Charge, size_of
from .items import Item, blob_of_items, check_prompt, require_short


class FanoutParams(GoalStep):
    """`input.params` of a fan-out's driver; `input.prompt` is the prompt with its places.

    `items`: a blob of JSON, a list of objects of texts. `max_running`: how many tasks at once; None: all.
    """

    items: BlobRef
    count: int
    policy: Policy = Policy.ALL
    quorum: int = 0
    max_running: int | None = Field(default=None, ge=1)

    @property
    def want(self) -> Want:
        return Want(self.policy, self.quorum)


class FanoutFields(TypedDict, total=False):
    """What a caller says of a fan-out, beside its prompt, its items and its agent."""

    want: Want
    max_running: int | None
    workspace: Workspace | None
    auth_scope: Scope | None  # instead of the agent's own
    budget: Budget | None  # of all together
    deadline_ms: int | None
    model: str
    asks: AskTerms | None  # None: nobody can be asked
    sender: str
    tenant: str


async def fanout_request(
    prompt: str,
    items: Sequence[Item],
    *,
    agent: AgentCard,
    blobs: Blobs,
    settings: Settings,
    charge: Charge | None = None,
    **fields: Unpack[FanoutFields],
) -> TaskRequest:
    """One task that makes one for each item. The same of them has the same key. `BadInput` where its tasks would fill
    the queue; `charge` is asked for all that they will have."""
    params, deadline_ms = await _params(prompt, items, agent, blobs, fields), fields.get("deadline_ms")
    request = task_request(
        agent=FANOUT,
        pool=DRIVERS,
        prompt=prompt,
        params=params.model_dump(mode="json"),
        workspace=fields.get("workspace"),
        auth_scope=params.auth_scope,
        budget=fields.get("budget") or Budget(max_cost_microusd=settings.budget_microusd),
        deadline_ms=settings.deadline_ms if deadline_ms is None else deadline_ms,
        model=fields.get("model", ""),
        tenant=fields.get("tenant") or settings.tenant,
        sender=fields.get("sender", "cli"),
        asks=fields.get("asks"),
    )
    beside = request.model_copy(update={"input": TaskInput()})  # what each of them is handed, too
    size_bytes = require_short(prompt, items, beside_bytes=size_of(beside))
    if charge is not None:
        await charge(size_bytes)
    return keyed(request)


async def _params(
    prompt: str, items: Sequence[Item], agent: AgentCard, blobs: Blobs, fields: FanoutFields
) -> FanoutParams:
    check_prompt(prompt, items)
    want, max_running, scope = fields.get("want", Want()), fields.get("max_running"), fields.get("auth_scope")
    want.checked(len(items))
    if max_running is not None and max_running < 1:
        raise BadInput("at least one task must be able to run", hint="--max-running 8")
    return FanoutParams(
        agent=agent.name,
        pool=agent.pool,
        auth_scope=scope_of(agent) if scope is None else scope,
        items=await blobs.put(blob_of_items(items)),
        count=len(items),
        policy=want.policy,
        quorum=want.quorum,
        max_running=max_running,
    )
