"""The console's inbox of asks: permissions, questions, plans, money. One inbox; the first answer counts."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

from fastapi import APIRouter, Request, Response
from starlette.datastructures import FormData

from envelope.asks import Reply, read_reply
from transport.audit import TIMEOUT
from transport.errors import NotFound

from ...asks import PLAN_EXIT, OpenAsk
from ...client import Muster
from ...errors import Answered
from ...inbox import Inbox, inbox_of
from ..asks import NewAnswer, give_answer
from ..budgets import TenantCap, cap_tenant, require_own
from ..caller import Caller
from ..tokens import Right
from .forms import amount_of, form_of, in_words_of_pages, text_of, texts_of
from .live import live
from .rendering import fragment, on_to, page
from .rooms import Looks, Pace
from .visitor import Approver, Operator, Viewer

router = APIRouter(prefix="/asks")

PACE = Pace(every_s=1.0)


@router.get("")
async def show_asks(request: Request, caller: Viewer, after: str = "") -> Response:
    """Who waits longest comes first; the first page alone goes on by itself."""
    inbox = await inbox_of(caller.muster, caller.seen_tenant, after=after)
    return page(request, "asks.html", parts=parts_of(inbox, may=_may(caller)), is_first=not after, cursor=inbox.cursor)


@router.get("/live")
async def follow_asks(request: Request, caller: Viewer) -> Response:
    may = _may(caller)
    name = f"asks:{caller.token.tenant}:{'+'.join(sorted(may))}"
    return live(request, caller, name, _looks(caller.muster, caller.seen_tenant, may), pace=PACE)


# Before those of an ask: a tenant may have any name, `answer` for one.
@router.get("/tenant/{tenant:path}")
async def show_tenant(request: Request, tenant: str, caller: Operator) -> Response:
    require_own(tenant, caller)
    ledger = await caller.muster.tenant_budget(tenant)
    what = f"All traces of the tenant {tenant} together"
    return page(request, "asks/raise.html", ledger=ledger, what=what, to=f"/asks/tenant/{quote(tenant)}")


@router.post("/tenant/{tenant:path}")
async def raise_tenant(request: Request, tenant: str, caller: Operator) -> Response:
    await cap_tenant(tenant, TenantCap(cap_microusd=amount_of(await form_of(request), "dollars")), caller)
    return on_to("/asks")


@router.get("/{ask_id}")
async def show_ask(request: Request, ask_id: str, caller: Viewer) -> Response:
    """Open, with the form that answers it; or what was answered."""
    try:
        one = await caller.ask(ask_id)
    except NotFound as e:
        if (known := await caller.answered(ask_id)) is None:
            raise NotFound(f"no ask has the id {ask_id}", hint="it may be over: see those that are open") from e
        one, answer = known
        told = _told(one, answer.by, answer.at_ms, read_reply(answer.text))
        return page(request, "asks/answered.html", **told, first=False)
    card = parts_of(Inbox([one]), may=frozenset())[f"card-{ask_id}"]
    return page(request, "asks/ask.html", one=one, card=card, may=_may(caller), plan_exit=PLAN_EXIT)


@router.post("/{ask_id}/answer")
async def answer(request: Request, ask_id: str, caller: Approver, asked: str = "") -> Response:
    """303 to what was answered; 409 with the answer that stands, when somebody was first. `asked`: what was shown."""
    form = await form_of(request)
    try:
        one = await caller.ask_to_answer(ask_id)
    except NotFound as e:
        raise NotFound(f"the ask {ask_id} is not open any more", hint="it was answered, or its task has ended") from e
    words = {"choice": text_of(form, "choice"), "message": text_of(form, "message")}
    said = NewAnswer(**words, says=_says(form, one), asked=asked)
    try:
        async with in_words_of_pages():
            await give_answer(caller.muster, one, said, by=caller.name)
    except Answered as first:
        told = _told(one, first.by, first.at_ms, first.reply)
        return page(request, "asks/answered.html", status=HTTPStatus.CONFLICT, **told, first=True)
    return on_to(f"/asks/{ask_id}")


@router.get("/budget/{trace_id}")
async def show_budget(request: Request, trace_id: str, caller: Approver) -> Response:
    await caller.require_trace(trace_id)
    funds = await caller.muster.budget(trace_id)
    what = "This trace and all below it"
    return page(request, "asks/raise.html", ledger=funds.ledger, what=what, to=f"/traces/{trace_id}/budget")


def _may(caller: Caller) -> frozenset[str]:
    """What the one who looks may do here: part of the name of their room, for others see other buttons."""
    deeds = {Right.APPROVE} if caller.seen_tenant else {Right.APPROVE, Right.OPERATE}
    return frozenset(right.value for right in deeds & caller.rights)


def _looks(muster: Muster, tenant: str | None, may: frozenset[str]) -> Looks:
    async def looks() -> AsyncGenerator[Mapping[str, str]]:
        while True:
            yield parts_of(await inbox_of(muster, tenant), may=may)

    return looks


def parts_of(inbox: Inbox, *, may: frozenset[str]) -> dict[str, str]:
    """A card for each by its id; `cards` says which there are, in their order, as static/asks.js reads it."""
    cards: dict[str, str] = {}
    for one in inbox.asks:
        plan = inbox.plans.get(one.task.task_id) if one.ask.permission == PLAN_EXIT else None
        cards[f"card-{one.ask.ask_id}"] = fragment("asks/card.html", one=one, plan=plan, may=may, plan_exit=PLAN_EXIT)
    for money in inbox.money:
        cards[f"card-{money.name}"] = fragment("asks/money.html", money=money, may=may)
    return {**cards, "cards-open": " ".join(cards), "asks-count": fragment("asks/count.html", inbox=inbox)}


def _says(form: FormData, one: OpenAsk) -> tuple[str, ...]:
    """For each question the options that were ticked, and the words beside them."""
    if one.ask.permission == PLAN_EXIT or not one.ask.questions or text_of(form, "choice") == "reject":
        return ()
    said = ([*texts_of(form, f"says-{n}"), *texts_of(form, f"own-{n}")] for n in range(len(one.ask.questions)))
    return tuple(", ".join(each) for each in said)


def _told(one: OpenAsk, by: str, at_ms: int, reply: Reply) -> dict[str, Any]:
    return {
        "one": one,
        "by": "" if by == TIMEOUT else by.removeprefix("api:").removeprefix("console:"),
        "at_ms": at_ms,
        "said": reply.in_words(),
    }
