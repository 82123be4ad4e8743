"""What tasks ask people, and the answers."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from pydantic import BaseModel

from transport.base import Answer
from transport.errors import NotFound

from ..asks import OpenAsk, answered_ask, is_ask, reply_to
from ..client import Muster
from .access import Approver, Caller, Viewer
from .tasks import Body

router = APIRouter(prefix="/v1/asks", tags=["asks"])


class Open(BaseModel):
    """`ask` has the exact command or diff in `detail`."""

    task_id: str
    trace_id: str
    agent: str
    ask: dict[str, Any]


class NewAnswer(Body):
    """`choice`: once, always or reject (`message` says why); `says`: one text for each question."""

    choice: str = ""
    message: str = ""
    says: tuple[str, ...] = ()


class Standing(BaseModel):
    """The answer that stands."""

    by: str
    at_ms: int


def told(one: OpenAsk) -> Open:
    task = one.task
    return Open(task_id=task.task_id, trace_id=task.trace_id, agent=task.agent, ask=one.ask.model_dump(mode="json"))


@router.get("")
async def list_asks(caller: Viewer) -> list[Open]:
    """What the caller's tasks wait for."""
    return [told(one) for one in await asks_seen(caller)]


@router.get("/{ask_id}")
async def show_ask(ask_id: str, caller: Viewer) -> Open:
    return told(await find_ask(ask_id, caller))


@router.post("/{ask_id}/answer")
async def answer_ask(ask_id: str, answer: NewAnswer, caller: Approver) -> Standing:
    """Answer. 409 when somebody else was first, with what they said: that stands."""
    return await give_answer(caller.muster, await ask_to_answer(ask_id, caller), answer, by=caller.name)


async def give_answer(muster: Muster, one: OpenAsk, answer: NewAnswer, *, by: str) -> Standing:
    reply = reply_to(one.ask, answer.choice, message=answer.message, says=answer.says)
    standing = await muster.reply(one, reply, by=by)
    return Standing(by=standing.by, at_ms=standing.at_ms)


async def ask_to_answer(ask_id: str, caller: Caller) -> OpenAsk:
    """Also one that has its answer: of a caller who did not hear of its own, and says it again."""
    try:
        return await find_ask(ask_id, caller)
    except NotFound:
        if (known := await find_answered(ask_id, caller)) is None:
            raise
        return known[0]


async def find_answered(ask_id: str, caller: Caller) -> tuple[OpenAsk, Answer] | None:
    """One of the caller's that has its answer, with that."""
    transport, tenant = caller.muster.transport, caller.seen_tenant
    known = await answered_ask(transport, ask_id, tenant=tenant) if is_ask(ask_id) else None
    is_theirs = known is not None and known[0].ask.ask_id == ask_id and caller.sees(known[0].task)
    return known if is_theirs else None


async def asks_seen(caller: Caller) -> list[OpenAsk]:
    asks = await caller.muster.asks(tenant=caller.seen_tenant)
    return [one for one in asks if caller.sees(one.task)]


async def find_ask(ask_id: str, caller: Caller) -> OpenAsk:
    for one in await asks_seen(caller) if is_ask(ask_id) else ():
        if one.ask.ask_id == ask_id:
            return one
    raise NotFound(f"no open ask has the id {ask_id}", hint="see those that are open with: GET /v1/asks")
