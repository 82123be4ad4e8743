"""What a reply without calls means: the answer, or why it is none yet; and what a failed call means."""

from __future__ import annotations

from envelope.errors import ErrorCode

from ..delivery.failures import OF_MODELS
from ..llm.base import Completed, Failed, Failure
from .compacting import overflowed
from .duty import Duty, duty_of, was_reminded
from .finish import finish_reason
from .history import CUT_OFF, EMPTY, failed, finished, was_told
from .means import Loop
from .session import Session
from .telling import tell


def conclude(session: Session, reply: Completed, loop: Loop) -> Session:
    """A reply without calls is the answer, unless it is empty or was cut off."""
    if finish_reason(reply) == "content_filter":
        return model_failed(session, Failed(Failure.CONTENT_FILTER, "the model's reply was filtered"), loop)
    if not reply.text.strip():
        if was_told(session, EMPTY):
            return failed(session, ErrorCode.MODEL_FAILED, "the model gave two empty replies in a row")
        return tell(session, loop, EMPTY)
    if finish_reason(reply) == "max_tokens":
        return tell(session, loop, CUT_OFF)
    duty = duty_of(session, loop.tools)
    return _remind(session, duty, loop) if duty else finished(session)


def _remind(session: Session, duty: Duty, loop: Loop) -> Session:
    if was_reminded(session, duty):
        return failed(session, duty.code, duty.fault, duty.hint)
    return tell(session, loop, duty.reminder)


def model_failed(session: Session, failure: Failed, loop: Loop) -> Session:
    if failure.failure is Failure.OVERFLOW and loop.policy.auto:
        return overflowed(session, failure)
    code, hint = OF_MODELS[failure.failure]
    return failed(session, code, failure.message, hint)
