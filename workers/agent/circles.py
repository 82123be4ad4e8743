"""Who judges a model that goes round in circles: people where they can be asked, else the loop itself."""

from __future__ import annotations

from collections.abc import Sequence

from envelope.errors import ErrorCode

from ..llm.base import ToolCall
from ..permissions.rules import Action
from ..tools.asking import DOOM_LOOP
from ..tools.people import Asked, People
from .calls import Answered
from .history import failed
from .repeats import circling
from .session import PROMPT_IT, Session


def begin_turn(people: People | None, session: Session) -> None:
    """Before the last calls run: one that closes a circle is asked for where a rule says so."""
    if people is None:
        return
    call = circling(session.messages)
    asks = call is not None and people.action(DOOM_LOOP, call.name) is Action.ASK
    people.turn, people.suspect = session.turn, call.id if call and asks else ""


def circle_left(people: People | None, session: Session, open_turn: Sequence[Answered]) -> ToolCall | None:
    """The call of the last turn that closed a circle, unless people were asked about it, or a rule allows it.

    `open_turn`: the turn as it stood before people had settled it.
    """
    call = circling(session.messages)
    if call is None or any(_is_about_loops(answer.result) for answer in open_turn):
        return None
    return None if people and people.action(DOOM_LOOP, call.name) is Action.ALLOW else call


def circle_ended(session: Session) -> Session:
    """After a closing turn: a session that had it because its model went round in circles is over."""
    if not session.circling:
        return session
    detail = f"the model kept repeating the same call of {session.circling}"
    return failed(session, ErrorCode.TURN_LIMIT, detail, f"say what it should do instead: {PROMPT_IT}")


def _is_about_loops(result: object) -> bool:
    return isinstance(result, Asked) and any(ask.permission == DOOM_LOOP for ask in result.asks)
