"""The agent loop. A session is all the state there is: a step takes one and makes the next.

while no reason to stop:
    ask the model            streamed; retried by the model's own wrapper; priced
    run its tool calls       in parallel where that is safe
    save                     checkpoint, and send what was reported
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass

from envelope.budget import Usage
from envelope.errors import ErrorCode
from envelope.events import (
    CallState,
    Event,
    MessageAdded,
    ReasoningDelta,
    TextDelta,
    ToolCallChanged,
    ToolInputDelta,
    TurnFinished,
    TurnStarted,
    WarningRaised,
)

from ..failures import OF_MODELS
from ..llm.base import (
    CallDelta,
    CallStarted,
    ChatModel,
    Completed,
    Failed,
    Failure,
    ModelEvent,
    Reasoning,
    Text,
    ToolSpec,
)
from ..tools.base import Tool, ToolContext
from .budget import calls_left, is_last_turn, why_stop
from .calls import RunCalls, answer, offer
from .history import CLOSING, CUT_OFF, EMPTY, failed, finished, resumed, say, was_told, with_answers, with_reply
from .repeats import WARNING, circling
from .session import Session


@dataclass(frozen=True, slots=True)
class Loop:
    """What a session runs with.

    `run_calls` answers every call, in their order, and raises only for what ends the task (a lost sandbox). `emit`
    takes an event and returns at once; `save` sends what was emitted, stores the session and returns it (with the
    workspace's changes noted), and raises `Fenced` when the task is another worker's by now. `price` gives
    the micro-dollars of a usage. `exhausted`: has the trace spent all its money?
    """

    model: ChatModel
    tools: Mapping[str, Tool]
    run_calls: RunCalls
    context: ToolContext
    emit: Callable[[Event], None]
    save: Callable[[Session], Awaitable[Session]]
    price: Callable[[Usage], int]
    exhausted: Callable[[], bool]


async def run(session: Session, loop: Loop) -> Session:
    """From wherever the session stands to its outcome; saved after every turn."""
    session = resumed(session)
    while session.outcome is None:
        if stop := why_stop(session, trace_exhausted=loop.exhausted()):
            loop.emit(stop.event)
            session = failed(session, stop.code, stop.detail, stop.hint)
        else:
            session = await step(session, loop)
        session = await loop.save(session)
    return session


async def step(session: Session, loop: Loop) -> Session:
    """One model call, and the tool calls that it asks for."""
    closing = is_last_turn(session)
    session = _say(session, loop, CLOSING) if closing else session
    session = session.model_copy(update={"turn": session.turn + 1})
    loop.emit(TurnStarted(turn=session.turn, model=loop.model.name))
    reply = await _ask(session, loop, [] if closing else offer(loop.tools))
    if isinstance(reply, Failed):
        loop.emit(TurnFinished(turn=session.turn, finish_reason="error"))
        return _model_failed(session, reply)
    cost, reason = loop.price(reply.usage), reply.finish_reason
    session = with_reply(session, reply, cost_microusd=cost, keep_calls=not closing)
    loop.emit(TurnFinished(turn=session.turn, finish_reason=reason, usage=reply.usage, cost_microusd=cost))
    if closing:
        return session  # its turns are used up, and that is what `run` will say
    return await _act(session, reply, loop) if reply.tool_calls else _conclude(session, reply, loop)


async def _ask(session: Session, loop: Loop, tools: Sequence[ToolSpec]) -> Completed | Failed:
    """Stream one reply and report it as it comes; what a failed try had reported, the next one reports again."""
    async with aclosing(loop.model.stream(session.messages, tools)) as events:
        async for event in events:
            if isinstance(event, Completed | Failed):
                return event
            if news := _event_of(event):
                loop.emit(news)
    return Failed(Failure.UNAVAILABLE, "the model's stream stopped without an end")


async def _act(session: Session, reply: Completed, loop: Loop) -> Session:
    was_warned = session.messages[-2].content == WARNING
    answers = await answer(reply.tool_calls, loop.run_calls, loop.emit, left=calls_left(session))
    session = with_answers(session, answers, loop.context.read_digests)
    call = circling(session.messages)
    if call is None:
        return session
    loop.emit(WarningRaised(message=f"the model repeats the same call of {call.name}"))
    if was_warned:
        return failed(session, ErrorCode.TURN_LIMIT, f"the model kept repeating the same call of {call.name}")
    return _say(session, loop, WARNING)


def _conclude(session: Session, reply: Completed, loop: Loop) -> Session:
    """A reply without calls is the answer, unless it is empty or was cut off."""
    if reply.finish_reason == "content_filter":
        return _model_failed(session, Failed(Failure.CONTENT_FILTER, "the model's reply was filtered"))
    if not reply.text.strip():
        if was_told(session, EMPTY):
            return failed(session, ErrorCode.MODEL_FAILED, "the model gave two empty replies in a row")
        return _say(session, loop, EMPTY)
    return _say(session, loop, CUT_OFF) if reply.finish_reason == "length" else finished(session)


def _say(session: Session, loop: Loop, text: str) -> Session:
    loop.emit(MessageAdded(role="user", text=text, synthetic=True))
    return say(session, text)


def _event_of(event: ModelEvent) -> Event | None:
    """What watchers see of a stream; None for its end, which the loop tells in its own words."""
    match event:
        case Text(text):
            return TextDelta(text=text)
        case Reasoning(text):
            return ReasoningDelta(text=text)
        case CallStarted(call_id, name):
            return ToolCallChanged(call_id=call_id, tool=name, state=CallState.PENDING)
        case CallDelta(call_id, text):
            return ToolInputDelta(call_id=call_id, text=text)
        case Completed() | Failed():
            return None


def _model_failed(session: Session, failure: Failed) -> Session:
    code, hint = OF_MODELS[failure.failure]
    return failed(session, code, failure.message, hint)
