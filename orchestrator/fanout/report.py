"""What a fan-out came to: every answer for programs, and one text for people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from envelope.lifecycle import State
from envelope.messages import TaskResult
from envelope.wire import Wire

from .items import Item, title_of

ANSWERS_NAME = "answers.jsonl"
# The report is read, and travels in the result: a long answer is cut there, and whole beside it.
MAX_ANSWER_CHARS = 2_000
MAX_REPORT_CHARS = 60_000


class Answer(Wire):
    """One line of `answers.jsonl`. `state` is None for an item whose task was not waited for."""

    item: dict[str, str]
    task_id: str = ""
    state: State | None = None
    text: str = ""
    structured: Any = None
    error: str = ""
    cost_microusd: int = 0


def answer_of(item: Item, result: TaskResult | None, *, cost_microusd: int = 0) -> Answer:
    """None: nobody waited for this item's task, so that nothing is said of it."""
    if result is None:
        return Answer(item=dict(item))
    return Answer(
        item=dict(item),
        task_id=result.task_id,
        state=result.status,
        text=result.output.text,
        structured=result.output.structured,
        error=result.errors[0].message if result.errors else "",
        cost_microusd=cost_microusd,
    )


def report_text(answers: Sequence[Answer], chosen: str) -> str:
    """Markdown: the chosen answer first, then one section for each item, as long as there is room."""
    first = [answer for answer in answers if chosen and answer.task_id == chosen]
    rest = [answer for answer in answers if answer not in first]
    parts: list[str] = []
    room = MAX_REPORT_CHARS
    for place, answer in enumerate([*first, *rest]):
        part = _section(answer)
        if len(part) > room:
            parts.append(f"… and {len(answers) - place} more, in {ANSWERS_NAME}")
            break
        parts.append(part)
        room -= len(part)
    return "\n\n".join(parts)


def _section(answer: Answer) -> str:
    said = answer.text.strip() if answer.state is State.COMPLETED else f"({_why_not(answer)})"
    if len(said) > MAX_ANSWER_CHARS:
        said = f"{said[:MAX_ANSWER_CHARS]}… (the whole answer: muster task show {answer.task_id})"
    return f"## {title_of(answer.item)}\n\n{said}"


def _why_not(answer: Answer) -> str:
    if answer.state is None:
        return "not waited for: enough others were there"
    return f"{answer.state}: {answer.error}" if answer.error else str(answer.state)
