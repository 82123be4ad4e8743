"""The calls of a turn: run, answered by subagents and people where they are asked, and what ends with them."""

from __future__ import annotations

from envelope.errors import ErrorCode
from envelope.events import TurnFinished, WarningRaised

from .budget import calls_left
from .calls import answer, collect
from .circles import begin_turn, circle_left
from .hearing import AFTER_PLAN, REFUSED_HINT, Heard, hear_people, plan_approved, refusal, with_approvals
from .history import failed, finished, with_answers, with_open_turn
from .means import Loop
from .repeats import WARNING
from .session import Session
from .structured import given
from .telling import tell


async def act(session: Session, loop: Loop) -> Session:
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
    return tell(session, loop, WARNING)


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
