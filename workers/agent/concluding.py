"""What a reply without calls means: the answer, or why it is none yet; and what a failed call means."""

from __future__ import annotations

from envelope.errors import ErrorCode

from ..delivery.failures import OF_MODELS
from ..llm.base import Completed, Failed, Failure
from .compacting import ANOTHERS_TURN, handed_on, overflowed
from .duty import Duty, duty_of, was_reminded
from .finish import finish_reason
from .history import CUT_OFF, EMPTY, THOUGHTS_CUT_OFF, failed, finished, was_told
from .means import Loop
from .session import Session
from .telling import tell

MAX_REFUSAL_CHARS = 300
_NO_WORDS = (
    "the model's thoughts used up its output limit twice, before it said anything",
    "lower the agent's effort, or take a model with a higher output limit",
)


def conclude(session: Session, reply: Completed, loop: Loop) -> Session:
    """A reply without calls is the answer, unless it is empty, was cut off, or is none yet."""
    reason = finish_reason(reply)
    if reason in ("content_filter", "refusal"):
        session = _without_reply(session) if loop.fallback else session
        return model_failed(session, Failed(Failure.CONTENT_FILTER, _refused(reply)), loop)
    if reason == "pause":
        return session
    if reason == "max_tokens" and not reply.text.strip():
        if was_told(session, THOUGHTS_CUT_OFF):
            return failed(session, ErrorCode.MODEL_FAILED, *_NO_WORDS)
        return tell(session, loop, THOUGHTS_CUT_OFF)
    if not reply.text.strip():
        if was_told(session, EMPTY):
            return failed(session, ErrorCode.MODEL_FAILED, "the model gave two empty replies in a row")
        return tell(session, loop, EMPTY)
    if reason == "max_tokens":
        return tell(session, loop, CUT_OFF)
    duty = duty_of(session, loop.tools)
    return _remind(session, duty, loop) if duty else finished(session)


def _refused(reply: Completed) -> str:
    if reply.finish_reason == "content_filter":
        return "the model's reply was filtered"
    said = " ".join(reply.text.split())[:MAX_REFUSAL_CHARS]
    return f"the model refused: {said}" if said else "the model refused to answer"


def _without_reply(session: Session) -> Session:
    """What was said before a refusal is no part of an answer; another model does not go on from there."""
    said = session.messages
    return session.model_copy(update={"messages": said[:-1]}) if said[-1].role == "assistant" else session


def _remind(session: Session, duty: Duty, loop: Loop) -> Session:
    if was_reminded(session, duty):
        return failed(session, duty.code, duty.fault, duty.hint)
    return tell(session, loop, duty.reminder)


def model_failed(session: Session, failure: Failed, loop: Loop) -> Session:
    if failure.failure is Failure.OVERFLOW and loop.policy.auto:
        return overflowed(session, failure)
    if loop.fallback and failure.failure in ANOTHERS_TURN:
        return handed_on(session, failure, loop)
    code, hint = OF_MODELS[failure.failure]
    return failed(session, code, failure.message, hint)
