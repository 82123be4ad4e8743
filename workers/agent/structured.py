"""Answers of a certain form: what the model is told about them, and finding them among its calls. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..llm.base import ToolCall
from ..tools.base import Tool, ToolResult
from ..tools.structured_output import STRUCTURED_OUTPUT
from .calls import Answered

# Said with a condition: a later prompt of the same session may want plain text again.
SYSTEM_LINE = (
    f"If there is a tool {STRUCTURED_OUTPUT}, your final answer counts only when you give it by calling that tool, with"
    " arguments that fit its schema. Do so once, when the work is done; a plain text is no answer then."
)
REMINDER = f"That is no answer yet: give it by calling {STRUCTURED_OUTPUT} now, with arguments that fit its schema."


def wants_form(tools: Mapping[str, Tool]) -> bool:
    return STRUCTURED_OUTPUT in tools


def only_answers(calls: Sequence[ToolCall], tools: Mapping[str, Tool]) -> bool:
    return bool(calls) and wants_form(tools) and all(call.name == STRUCTURED_OUTPUT for call in calls)


def given(answers: Sequence[Answered]) -> dict[str, Any] | None:
    """The last valid answer among the calls of a turn; None when there is none."""
    valid = [answer for answer in answers if answer.call.name == STRUCTURED_OUTPUT and _is_taken(answer)]
    return valid[-1].call.input if valid else None


def _is_taken(answer: Answered) -> bool:
    return answer.ran and isinstance(answer.result, ToolResult) and not answer.result.is_error
