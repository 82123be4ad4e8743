"""Stop work, talk to it, and answer what it asks."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, Field

from envelope.asks import Question

from ...asks import OpenAsk, reply_to
from ...errors import BadInput
from ..text import DATA, shown
from ..tool import Call, Said
from .looking import Nothing, WhichTask
from .starting import MAX_TEXT_CHARS, Started

MAX_ASKS = 50
TOO_LONG = {
    "permission": "",
    "patterns": (),
    "detail": "",
    "questions": (),
    "always": (),
    "question": "It is too long to be shown here; a person types: muster ask show",
}
MAX_SHOWN_CHARS = 200_000  # of all asks together; one has 128 KiB at most


class Stop(WhichTask):
    reason: Annotated[str, Field(max_length=500, description="Why, for people who read of it.")] = "asked for"


class Words(WhichTask):
    text: Annotated[str, Field(min_length=1, max_length=MAX_TEXT_CHARS, description="What the agent is to hear.")]


class Reply(Said):
    ask_id: Annotated[str, Field(pattern=r"^ask_[A-Za-z0-9_-]{1,100}$", description="As list_asks shows it.")]
    asked: Annotated[str, Field(max_length=100, description="As list_asks shows it: the yes is to that question.")]
    choice: Annotated[
        Literal["once", "always", "reject", ""],
        Field(
            description="To a permission; what `always` allows, the ask says. To questions and plans: empty, or reject."
        ),
    ] = ""
    message: Annotated[str, Field(max_length=10_000, description="With reject: why. The agent hears it.")] = ""
    says: Annotated[
        tuple[Annotated[str, Field(max_length=10_000)], ...],
        Field(max_length=20, description="To questions: one text each, in their order."),
    ] = ()


class Stopped(BaseModel):
    task_id: str
    stopped_tasks: int


class Background(BaseModel):
    task_id: str
    next: str


class Ask(BaseModel):
    """`detail`: the exact command or diff. `questions`: what is asked, with the answers that are offered. `always`:
    what that answer allows from then on. `asked`: a digest of it all; empty: it is too long to be answered here."""

    ask_id: str
    task_id: str
    agent: str
    permission: str
    patterns: list[str]
    question: str
    detail: str
    questions: list[str]
    always: list[str]
    asked: str


class Asks(BaseModel):
    """Who waits longest comes first. `more`: open asks that are not listed here."""

    note: str = DATA
    asks: list[Ask]
    more: int
    next: str


class Standing(BaseModel):
    ask_id: str
    answered_by: str


async def cancel_task(call: Call, said: Stop) -> Stopped:
    """Stop a task and everything below it. What it has done so far is kept with its result."""
    await call.caller.record(said.task_id)
    stopped = await call.caller.muster.cancel(said.task_id, said.reason, by=call.caller.name)
    return Stopped(task_id=said.task_id, stopped_tasks=stopped)


async def prompt_task(call: Call, said: Words) -> Started:
    """Say something to the agent of a task: one at work hears it at its next turn, one that has ended goes on."""
    await call.caller.record(said.task_id)
    handle = await call.caller.muster.prompt(said.task_id, said.text, by=call.caller.name)
    return Started(
        task_id=handle.task_id,
        trace_id=handle.trace_id,
        existing=handle.existing,
        next="call task_result with wait_s, with this task_id",
    )


async def background_task(call: Call, said: WhichTask) -> Background:
    """Let an agent that waits for its subagent go on without it. `task_id`: the subagent's, as task_status shows it."""
    await call.caller.record(said.task_id)
    await call.caller.muster.background(said.task_id)
    return Background(task_id=said.task_id, next="its caller hears of its end; see both with task_status")


async def list_asks(call: Call, said: Nothing) -> Asks:
    """What tasks ask people: permissions, questions, plans to approve. Show them to your user; decide nothing alone."""
    found = await call.caller.open_asks()
    asks: list[Ask] = []
    left_chars = MAX_SHOWN_CHARS
    for one in found[:MAX_ASKS]:
        told = _told(one)
        left_chars -= len(told.model_dump_json())
        if left_chars < 0 and asks:
            break
        asks.append(told)
    more = len(found) - len(asks)
    rest = f"; {more} more are listed when these are answered, and by: muster ask list" if more else ""
    return Asks(
        asks=asks,
        more=more,
        next=f"answer with answer_ask if your role may, else a person types: muster ask answer ASK_ID{rest}",
    )


async def answer_ask(call: Call, said: Reply) -> Standing:
    """Give a person's answer to an ask: once, always or reject; to questions a text for each in `says`.

    Only with your user's own decision on this very ask. Who comes second is told what was answered first.
    """
    one = await call.caller.ask_to_answer(said.ask_id)
    if one.ask.is_too_long:
        raise BadInput("this ask is too long to be shown here", hint=f"a person types: muster ask show {said.ask_id}")
    if said.asked != one.ask.digest():
        raise BadInput("the question is another than the one that was shown", hint="show it again: list_asks")
    reply = reply_to(one.ask, said.choice, message=said.message, says=said.says, task_id=one.task.task_id)
    standing = await call.caller.muster.reply(one, reply, by=call.caller.name)
    return Standing(ask_id=said.ask_id, answered_by=standing.by)


def _told(one: OpenAsk) -> Ask:
    """All of it: a yes is to what nobody was shown, too."""
    ask = one.ask.model_copy(update=TOO_LONG) if one.ask.is_too_long else one.ask
    return Ask(
        ask_id=ask.ask_id,
        task_id=one.task.task_id,
        agent=one.task.agent,
        permission=ask.permission,
        patterns=[shown(pattern) for pattern in ask.patterns],
        question=shown(ask.question),
        detail=shown(ask.detail),
        questions=[
            shown(f"{each.header}: {each.question}{_offered(each)}".removeprefix(": ")) for each in ask.questions
        ],
        always=[shown(rule) for rule in ask.always],
        asked="" if one.ask.is_too_long else ask.digest(),
    )


def _offered(question: Question) -> str:
    """
    >>> _offered(Question(question="q", options=(Option(label="a", description="first"), Option(label="b"))))
    ' (a: first | b)'
    """
    offers = (": ".join(filter(None, (one.label, one.description))) for one in question.options)
    return f" ({' | '.join(offers)})" if question.options else ""
