"""How a session ends, as values."""

from __future__ import annotations

from envelope.errors import ErrorCode

from ..llm.base import Failed, Failure
from .history import final_text
from .session import Ending, Outcome, Session

# What a failed model call is called on the wire, and what a person can do about it.
FAILURES: dict[Failure, tuple[ErrorCode, str]] = {
    Failure.AUTH: (ErrorCode.MODEL_AUTH, "check the model's API key (MUSTER_MODEL_API_KEY or the provider's own)"),
    Failure.UNKNOWN_MODEL: (ErrorCode.MODEL_UNKNOWN, "name the model as provider/model, for example openai/gpt-5"),
    Failure.BAD_REQUEST: (ErrorCode.MODEL_FAILED, "the provider refused the request; see its words"),
    Failure.OVERFLOW: (ErrorCode.MODEL_FAILED, "give the task less to read at once, or a model with a larger window"),
    Failure.RATE_LIMIT: (ErrorCode.MODEL_FAILED, "wait, or lower the number of slots"),
    Failure.UNAVAILABLE: (ErrorCode.MODEL_FAILED, "the provider does not answer; try again, or check its base URL"),
    Failure.CONTENT_FILTER: (ErrorCode.MODEL_FAILED, "the provider's filter stopped the reply; rephrase the task"),
}  # fmt: skip


def finished(session: Session) -> Session:
    return _ended(session, Outcome(ending=Ending.FINISHED, text=final_text(session)))


def failed(session: Session, code: ErrorCode, detail: str, hint: str = "") -> Session:
    """Ended with an error; the model's last words are kept as what there is of an answer."""
    outcome = Outcome(ending=Ending.FAILED, text=final_text(session), error=code, detail=detail, hint=hint)
    return _ended(session, outcome)


def model_failed(session: Session, failure: Failed) -> Session:
    code, hint = FAILURES[failure.failure]
    return failed(session, code, failure.message, hint)


def _ended(session: Session, outcome: Outcome) -> Session:
    return session.model_copy(update={"outcome": outcome})
