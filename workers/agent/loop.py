"""The agent loop. A session is all the state there is: a step takes one and makes the next.

while no reason to stop:
    hear what people said    prompts that came in meanwhile
    ask the model            streamed; retried by the model's own wrapper; paid for
    run its tool calls       in parallel where that is safe
    save                     checkpoint, and send what was reported
    compact                  when the window fills: a step of its own, stored before it begins

A turn whose subagents take long, or that waits for people, is left open: the loop ends, and goes on in another attempt
(see `session.py`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field

from envelope.budget import Usage
from envelope.errors import ErrorCode
from envelope.events import Event, MessageAdded, TurnFinished, WarningRaised

from ..failures import OF_MODELS
from ..llm.base import ChatModel, Completed, Failed, Failure
from ..tools.base import Tool, ToolContext
from .bound import window_tokens
from .budget import Stop, calls_left, is_last_turn, why_stop
from .calls import RunCalls, answer, collect, offer
from .circles import begin_turn, circle_left
from .compacting import WindowPolicy, comes_first, compact, is_over, measured, overflowed, with_words
from .duty import Duty, duty_of, was_reminded
from .hearing import AFTER_PLAN, REFUSED_HINT, Heard, hear_people, plan_approved, refusal, with_approvals
from .history import (
    CLOSING,
    CUT_OFF,
    EMPTY,
    failed,
    finished,
    resumed,
    say,
    was_told,
    with_answers,
    with_open_turn,
    with_reply,
)
from .paying import NO_TILL, Till, paid_call, stopped
from .reminders import reminder_of, with_reminder
from .repeats import WARNING
from .session import Session
from .shown import shown
from .structured import for_closing, given, only_answers


@dataclass(frozen=True, slots=True)
class Loop:
    """What a session runs with.

    `run_calls` answers every call, in their order, and raises only for what ends the attempt (a lost sandbox). `emit`
    takes an event and returns at once; `save` sends what was emitted, stores the session and returns it (with the
    workspace's changes noted), and raises `Fenced` when the task is another's by now. `hear` gives what people have
    said since the last save. `price`: micro-dollars of a usage. `exhausted`: has the trace spent all its money?
    `policy`: how the session is kept within the model's window. `till`: where money for calls is set aside.
    """

    model: ChatModel
    tools: Mapping[str, Tool]
    run_calls: RunCalls
    context: ToolContext
    emit: Callable[[Event], None]
    save: Callable[[Session], Awaitable[Session]]
    hear: Callable[[], Awaitable[Sequence[str]]]
    price: Callable[[Usage], int]
    exhausted: Callable[[], bool]
    policy: WindowPolicy = field(default_factory=WindowPolicy)
    till: Till = NO_TILL


async def run(session: Session, loop: Loop) -> Session:
    """From wherever the session stands to its outcome, or to where it waits (for others, for money); saved after every
    turn."""
    session = await _heard(resumed(session.model_copy(update={"waits_at_microusd": None})), loop)
    while not is_over(session):
        session = await loop.save(await _advance(session, loop))
        if session.open_turn or session.waits_at_microusd is not None:
            break
        session = await _heard(session, loop)
    return session


async def _advance(session: Session, loop: Loop) -> Session:
    """The rest of a turn that was left open, another turn, or the end for want of what another one needs."""
    if session.open_turn:
        return await _act(session, loop)
    if stop := why_stop(session, trace_exhausted=loop.exhausted()):
        return stopped(session, stop, loop)
    return await (compact if comes_first(session) else step)(session, loop)


async def step(session: Session, loop: Loop) -> Session:
    """One model call, and the tool calls that it asks for."""
    closing = is_last_turn(session)
    session = _say(session, loop, CLOSING) if closing and not was_told(session, CLOSING) else session
    tools = offer(for_closing(loop.tools) if closing else loop.tools)
    session = loop.policy.pruned(session)
    messages = with_reminder(session, shown(session))
    tokens = window_tokens(session, tools) + len(reminder_of(session).encode())
    paid = await paid_call(session, messages, tools, loop, input_tokens=tokens, tell=loop.emit)
    if isinstance(paid, Stop):
        return stopped(session, paid, loop)
    session, reply = paid.session, paid.reply
    if isinstance(reply, Failed):
        return _model_failed(session, reply, loop)
    act = bool(reply.tool_calls) and (not closing or only_answers(reply.tool_calls, loop.tools))
    session = measured(with_reply(session, reply, keep_calls=act), reply.usage, loop.policy)
    if act:
        return await _act(session, loop)
    # after a closing turn: its turns are used up, and that is what `run` will say
    return session if closing else _conclude(session, reply, loop)


async def _heard(session: Session, loop: Loop) -> Session:
    """The session with what people have said meanwhile; one that had ended well goes on with it.

    Nothing may stand between calls and their answers: an open turn hears nothing.
    """
    if session.open_turn or (session.outcome is not None and session.outcome.error is not None):
        return session
    prompts = await loop.hear()
    for prompt in prompts:
        loop.emit(MessageAdded(role="user", text=prompt))
    return with_words(session, prompts)


async def _act(session: Session, loop: Loop) -> Session:
    """The session with its last calls answered; with an open turn while subagents or people are at some of them."""
    was_warned = session.messages[-2].content == WARNING
    session = session if session.open_turn else await _begin_calls(session, loop)
    heard = await hear_people(session.open_turn, loop.context, loop.run_calls, loop.emit)
    session = with_approvals(session, loop.context.people)
    if heard.refused:
        return _refused(session, heard, loop)
    answers = await collect(heard.answers, loop.context, loop.emit)
    if any(answer.waits for answer in answers):
        return with_open_turn(session, answers, loop.context.read_digests)
    call = circle_left(loop.context.people, session)
    session = with_answers(session, answers, loop.context.read_digests)
    if plan_approved(answers):
        return finished(session, next_agent=AFTER_PLAN)
    if (value := given(answers)) is not None:
        return finished(session, value)
    if call is None:
        return session
    loop.emit(WarningRaised(message=f"the model repeats the same call of {call.name}"))
    if was_warned:
        return failed(session, ErrorCode.TURN_LIMIT, f"the model kept repeating the same call of {call.name}")
    return _say(session, loop, WARNING)


async def _begin_calls(session: Session, loop: Loop) -> Session:
    """The session with its last calls run. What subagents are at now is stored at once: nobody starts them again."""
    begin_turn(loop.context.people, session)
    answers = await answer(session.messages[-1].tool_calls, loop.run_calls, loop.emit, left=calls_left(session))
    session = with_open_turn(session, answers, loop.context.read_digests)
    return await loop.save(session) if any(answer.child for answer in answers) else session


def _refused(session: Session, heard: Heard, loop: Loop) -> Session:
    loop.emit(TurnFinished(turn=session.turn, finish_reason="permission_denied"))
    session = with_answers(session, heard.answers, loop.context.read_digests)
    return failed(session, ErrorCode.REFUSED, refusal(heard), REFUSED_HINT)


def _conclude(session: Session, reply: Completed, loop: Loop) -> Session:
    """A reply without calls is the answer, unless it is empty or was cut off."""
    if reply.finish_reason == "content_filter":
        return _model_failed(session, Failed(Failure.CONTENT_FILTER, "the model's reply was filtered"), loop)
    if not reply.text.strip():
        if was_told(session, EMPTY):
            return failed(session, ErrorCode.MODEL_FAILED, "the model gave two empty replies in a row")
        return _say(session, loop, EMPTY)
    if reply.finish_reason == "length":
        return _say(session, loop, CUT_OFF)
    duty = duty_of(session, loop.tools)
    return _remind(session, duty, loop) if duty else finished(session)


def _remind(session: Session, duty: Duty, loop: Loop) -> Session:
    if was_reminded(session, duty):
        return failed(session, duty.code, duty.fault, duty.hint)
    return _say(session, loop, duty.reminder)


def _say(session: Session, loop: Loop, text: str) -> Session:
    loop.emit(MessageAdded(role="user", text=text, synthetic=True))
    return say(session, text)


def _model_failed(session: Session, failure: Failed, loop: Loop) -> Session:
    if failure.failure is Failure.OVERFLOW and loop.policy.auto:
        return overflowed(session, failure)
    code, hint = OF_MODELS[failure.failure]
    return failed(session, code, failure.message, hint)
