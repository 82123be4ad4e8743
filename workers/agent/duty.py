"""How a task may end, where a plain text is no end of it: the model hears so once. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from envelope.errors import ErrorCode

from ..tools.base import Tool
from ..tools.question import PLAN_EXIT, QUESTION
from .session import PROMPT_IT, Session
from .structured import REMINDER, wants_form


@dataclass(frozen=True, slots=True)
class Duty:
    """`reminder` is for the model; when that does not help, the task ends with the rest."""

    reminder: str
    code: ErrorCode
    fault: str
    hint: str = ""


ANSWER = Duty(REMINDER, ErrorCode.NO_ANSWER, "the model gave no answer of the form that the task asks for")
LEAVE = Duty(
    f"You have not left your plan yet. Write it into your plan file and call {PLAN_EXIT}; if only a person can say how"
    f" to go on, call {QUESTION}. A text alone ends nothing.",
    ErrorCode.PLAN_INCOMPLETE,
    "the agent stopped without a plan that could be approved, and without a question",
    f"say what is missing with: {PROMPT_IT}",
)


def duty_of(session: Session, tools: Mapping[str, Tool]) -> Duty | None:
    """None when a text may be the end. Who plans, but can ask nobody, tells the plan."""
    if wants_form(tools):
        return ANSWER
    return LEAVE if session.plan_file and PLAN_EXIT in tools else None


def was_reminded(session: Session, duty: Duty) -> bool:
    """Since a person had the last word, or was asked for it."""
    for message in reversed(session.messages):
        if (message.role == "user" and not message.synthetic) or message.name in (PLAN_EXIT, QUESTION):
            return False
        if message.synthetic and message.content == duty.reminder:
            return True
    return False
