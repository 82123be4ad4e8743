"""Starting a goal: a form, then what it would be and cost, then its trace. One form starts once."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter, Request, Response
from pydantic import ValidationError
from starlette.datastructures import FormData

from envelope.agents import AgentCard, WorkerCard
from envelope.budget import Budget
from envelope.scope import split

from ...catalogue import agents_of, is_startable
from ...estimate import Estimate, estimate
from ...looking import is_read_only
from ...planner.modes import PlanMode
from ...read_only import narrowed
from ...units import parse_duration_s
from ..caller import Caller
from ..tasks import NewGoal, give_goal
from .forms import form_of, in_words_of_pages, lines_of, money_of, text_of, unusable
from .given import attachments_of, workspace_of
from .rendering import on_to, page
from .visitor import Submitter

router = APIRouter(prefix="/start")

KEY_CHARS = 64


@dataclass(frozen=True, slots=True)
class Choice:
    """An agent as it stands to be chosen. `tools`: what it gets; none for one that only looks, which says so."""

    card: AgentCard
    only_reads: bool

    @classmethod
    def of(cls, card: AgentCard) -> Choice:
        return cls(card, is_read_only(card.auth_scope) if card.auth_scope else False)

    @property
    def tools(self) -> list[str]:
        return list(dict.fromkeys(split(grant)[0] for grant in self.card.auth_scope))


@router.get("")
async def show_form(request: Request, caller: Submitter) -> Response:
    """`key` makes this form start once, however often it is sent."""
    workers = await caller.muster.workers()
    agents = [card for card in agents_of(workers).values() if not card.hidden and card.mode not in ("driver", "recipe")]
    settings = caller.muster.settings
    return page(
        request,
        "start.html",
        choices=[Choice.of(card) for card in sorted(agents, key=_usual_first) if is_startable(card)],
        others=sorted((card for card in agents if not is_startable(card)), key=lambda card: card.name),
        models=sorted({card.model for card in workers if card.model}),
        modes=list(PlanMode),
        settings=settings,
        key=secrets.token_hex(16),
    )


@router.post("")
async def review(request: Request, caller: Submitter) -> Response:
    """What it would be and about cost. Files are stored; nothing has started."""
    form = await form_of(request)
    goal = await _goal(request, caller, form)
    workers = await caller.muster.workers()
    async with in_words_of_pages():  # what its start would be refused for is said now
        said = {name: getattr(goal, name) for name in NewGoal.model_fields}
        narrowed([await caller.muster.goal(**said, tenant=caller.tenant)], caller.muster.settings)
    cap = goal.budget.max_cost_microusd if goal.budget else None
    about = about_cost(goal, workers, cap_microusd=cap)
    # in ASCII: what pages show instead of characters that are not seen must not come into the goal
    as_json = json.dumps(goal.model_dump(mode="json"))
    return page(request, "start/review.html", goal=goal, about=about, key=text_of(form, "key"), as_json=as_json)


@router.post("/go")
async def start(request: Request, caller: Submitter) -> Response:
    """303 to its trace. The form that is sent again leads to the same one."""
    form = await form_of(request)
    key = text_of(form, "key")
    if not key or len(key) > KEY_CHARS:
        raise unusable("this form has no key", "load the page again")
    try:
        goal = NewGoal.model_validate_json(text_of(form, "goal"))
    except ValidationError as e:
        raise unusable("this form cannot be read", "begin again at Start") from e
    if goal.workspace is not None and goal.workspace.bundle is None:  # what the page before this one looked at is one
        raise unusable("this form's repository was not looked at", "begin again at Start")
    async with in_words_of_pages():
        handle = await give_goal(caller, goal, f"console:{caller.token.name}:{key}")
    return on_to(f"/traces/{handle.trace_id}")


async def _goal(request: Request, caller: Caller, form: FormData) -> NewGoal:
    settings = caller.muster.settings
    cap = money_of(form, "budget")
    said: dict[str, Any] = {
        "goal": text_of(form, "goal"),
        "agent": text_of(form, "agent") or "build",
        "gate": lines_of(form, "gate"),
        "model": text_of(form, "model"),
        "plan": text_of(form, "plan") or PlanMode.NONE,
        "deadline_ms": _deadline_ms(form),
        "budget": Budget(max_cost_microusd=settings.budget_microusd if cap is None else cap, waits_at_cap=True),
    }
    async with in_words_of_pages():
        goal = NewGoal.model_validate(said)
        workspace, attachments = await workspace_of(request, caller, form), await attachments_of(request, caller, form)
    if goal.gate and workspace is None:
        raise unusable("a gate needs a repository to run in", "name its address, or send a bundle")
    return goal.model_copy(update={"workspace": workspace, "attachments": attachments})


def _deadline_ms(form: FormData) -> int | None:
    text = text_of(form, "deadline")
    try:
        return parse_duration_s(text) * 1000 if text else None
    except ValueError as e:
        raise unusable(str(e)) from e


def about_cost(goal: NewGoal, workers: Sequence[WorkerCard], *, cap_microusd: int | None) -> Mapping[str, Any]:
    """`model` and `range`; without a range where nobody knows the model's price, without a model where none serves."""
    model = goal.model or next((card.model for card in agents_of(workers).values() if card.name == goal.agent), "")
    worker = next((card for card in workers if card.model and model in ("", card.model)), None)
    price = worker.price if worker else None
    found: Estimate | None = estimate(price, prompt=goal.goal, cap_microusd=cap_microusd) if price else None
    return {"model": worker.model if worker else model, "range": found, "cap_microusd": cap_microusd}


def _usual_first(card: AgentCard) -> tuple[bool, str]:
    return card.name != "build", card.name
