"""The calls of a turn: run, answered by subagents and people where they are asked, and what ends with them."""

from __future__ import annotations

from contextlib import suppress

from envelope.errors import ErrorCode
from envelope.events import TurnFinished, WarningRaised
from sandbox.errors import SandboxError

from ..tools.dispatch import CutOff
from .background import with_started
from .budget import calls_left
from .calls import answer, collect, cut_off
from .circles import begin_turn, circle_left
from .hearing import AFTER_PLAN, REFUSED_HINT, Heard, hear_people, plan_approved, refusal, with_approvals
from .history import failed, finished, with_answers, with_open_turn
from .means import Loop
from .repeats import WARNING
from .session import Session
from .structured import given
from .telling import cut_off_is_told, tell


async def act(session: Session, loop: Loop) -> Session:
    """The session with its last calls answered; with an open turn while subagents or people are at some of them."""
    was_warned = session.messages[-2].content == WARNING
    session = session if session.open_turn else await _begin_calls(session, loop)
    heard = await hear_people(session.open_turn, loop.context, loop.run_calls, loop.emit)
    session = _with_cwd(with_approvals(session, loop.context.people), loop)
    if heard.refused:
        return _refused(session, heard, loop)
    answers = await collect(heard.answers, loop.context, loop.emit)
    session = with_started(session, answers)
    if any(answer.waits for answer in answers):
        return with_open_turn(session, answers, loop.context.read_digests)
    before, session = session, with_answers(session, answers, loop.context.read_digests)
    if plan_approved(answers):
        return finished(session, next_agent=AFTER_PLAN)
    if (value := given(answers)) is not None:
        return finished(session, value)
    call = circle_left(loop.context.people, session, before.open_turn)
    if call is None:
        return session
    if was_warned:
        return session.model_copy(update={"circling": call.name})
    loop.emit(WarningRaised(message=f"the model repeats the same call of {call.name}"))
    return tell(session, loop, WARNING)


async def _begin_calls(session: Session, loop: Loop) -> Session:
    """The session with its last calls run. What subagents are at now is stored at once: nobody starts them again.

    What a lost worker's calls did in its sandbox is lost with them, and the model is asked again. Calls that reach
    further are stored before they begin: who goes on from there reports them as interrupted.
    """
    begin_turn(loop.context.people, session)
    calls = session.messages[-1].tool_calls
    if any(loop.is_outside(call.name) for call in calls):
        session = await loop.save(session)
    with cut_off_is_told(loop, session.turn):
        try:
            answers = await answer(calls, loop.run_calls, loop.emit, left=calls_left(session))
        except CutOff as cut:
            await _save_cut(session, cut, loop)
            raise
    before, session = session, with_started(with_open_turn(session, answers, loop.context.read_digests), answers)
    session = _with_cwd(session, loop)
    is_handed_on = any(answer.child for answer in answers) or session.background != before.background
    return await loop.save(session) if is_handed_on else session


async def _save_cut(session: Session, cut: CutOff, loop: Loop) -> None:
    """Nobody makes the turn of a stopped task again: it is stored as far as it came."""
    if not loop.is_stopped():
        return
    answers = cut_off(session.messages[-1].tool_calls, cut.results)
    with suppress(SandboxError):  # what its work has come to cannot be seen any more
        session = with_answers(session, answers, loop.context.read_digests, finish="cancelled")
        await loop.save(_with_cwd(session, loop))


def _with_cwd(session: Session, loop: Loop) -> Session:
    return session.model_copy(update={"cwd": loop.context.cwd})


def _refused(session: Session, heard: Heard, loop: Loop) -> Session:
    loop.emit(TurnFinished(turn=session.turn, finish_reason="permission_denied"))
    session = with_answers(session, heard.answers, loop.context.read_digests, finish="permission_denied")
    return failed(session, ErrorCode.REFUSED, refusal(heard), REFUSED_HINT)
