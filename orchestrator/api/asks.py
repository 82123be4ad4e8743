"""What tasks ask people, and the answers."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from pydantic import BaseModel

from ..asks import OpenAsk, reply_to
from ..client import Muster
from ..errors import BadInput
from .access import Approver, Viewer
from .reading import BodyRoute
from .tasks import Body

router = APIRouter(route_class=BodyRoute, prefix="/v1/asks", tags=["asks"])


class Open(BaseModel):
    """`ask` has the exact command or diff in `detail`. `asked` is its digest: an answer that names it is to this."""

    task_id: str
    trace_id: str
    agent: str
    ask: dict[str, Any]
    asked: str = ""


class NewAnswer(Body):
    """`choice`: once, always or reject (`message` says why); `says`: one text for each question. `asked`: the digest of
    what was shown; with another the answer is refused."""

    choice: str = ""
    message: str = ""
    says: tuple[str, ...] = ()
    asked: str = ""


class Standing(BaseModel):
    """The answer that stands."""

    by: str
    at_ms: int


def told(one: OpenAsk) -> Open:
    task = one.task
    ask = one.ask.model_dump(mode="json")
    return Open(task_id=task.task_id, trace_id=task.trace_id, agent=task.agent, ask=ask, asked=one.ask.digest())


@router.get("")
async def list_asks(caller: Viewer) -> list[Open]:
    """What the caller's tasks wait for."""
    return [told(one) for one in await caller.open_asks()]


@router.get("/{ask_id}")
async def show_ask(ask_id: str, caller: Viewer) -> Open:
    return told(await caller.ask(ask_id))


@router.post("/{ask_id}/answer")
async def answer_ask(ask_id: str, answer: NewAnswer, caller: Approver) -> Standing:
    """Answer. 409 when somebody else was first, with what they said: that stands."""
    return await give_answer(caller.muster, await caller.ask_to_answer(ask_id), answer, by=caller.name)


async def give_answer(muster: Muster, one: OpenAsk, answer: NewAnswer, *, by: str) -> Standing:
    if answer.asked and answer.asked != one.ask.digest():
        raise BadInput("the question is another now than the one that was shown", hint="look at it again")
    reply = reply_to(one.ask, answer.choice, message=answer.message, says=answer.says, task_id=one.task.task_id)
    standing = await muster.reply(one, reply, by=by)
    return Standing(by=standing.by, at_ms=standing.at_ms)
