"""An ask, for whoever was sent the link to it: no token, the link itself says that they may answer."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Path, Request

from transport.errors import NotFound

from ..asks import OpenAsk, asks_of
from ..client import Muster
from ..webhooks.links import MAX_CHARS, PATH, Links, link_keys
from .asks import NewAnswer, Open, Standing, give_answer, told
from .problems import Problem
from .rates import Rates
from .reading import BodyRoute

router = APIRouter(route_class=BodyRoute, prefix=PATH.rstrip("/"), tags=["asks"])

Token = Annotated[str, Path(max_length=MAX_CHARS)]


@router.get("/{token}")
async def show_linked_ask(token: Token, request: Request) -> Open:
    """What is asked. To look at it answers nothing: programs look at links before people do."""
    return told((await _linked(token, request))[0])


@router.post("/{token}")
async def answer_linked_ask(token: Token, answer: NewAnswer, request: Request) -> Standing:
    """Answer, once. 404 when it is answered or over; the answer stands for what the link's webhook said."""
    one, hook = await _linked(token, request)
    return await give_answer(request.app.state.muster, one, answer, by=f"webhook:{hook}")


async def _linked(token: str, request: Request) -> tuple[OpenAsk, str]:
    muster: Muster = request.app.state.muster
    mark = Links(link_keys(muster.transport)).mark(token)
    hook = muster.settings.webhooks.get(mark.hook) if mark else None
    if mark is None or hook is None or not hook.may_answer:
        raise Problem(HTTPStatus.FORBIDDEN, "this link answers nothing", hint="answer with: muster ask answer")
    rates: Rates = request.app.state.rates
    if wait_s := rates.take(f"link:{mark.hook}"):
        raise Problem(HTTPStatus.TOO_MANY_REQUESTS, "too many calls with these links", retry_after_s=wait_s)
    if await muster.transport.now_ms() < mark.until_ms:
        for one in await asks_of([await muster.record(mark.task_id)], muster.ask_texts):
            if one.ask.ask_id == mark.ask_id and mark.asked in ("", one.ask.digest()):
                return one, mark.hook
    raise NotFound("this ask is not open any more", hint="it was answered, or its time is over")
