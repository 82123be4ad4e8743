"""What the steps of a plan came to, as one text for people. Pure."""

from __future__ import annotations

from envelope.plan import StepStatus

from .survey import Standing, Survey

# The report is read, and travels in the result: a long answer is cut there, and whole in its own task.
MAX_ANSWER_CHARS = 2_000


def report_text(survey: Survey) -> str:
    """Markdown: one section for each step."""
    return "\n\n".join(map(_section, survey.standings.values()))


def _section(one: Standing) -> str:
    return f"## {one.step.title or one.step.step_id}\n\n{_said(one)}"


def _said(one: Standing) -> str:
    if one.status is not StepStatus.DONE or one.result is None:
        return f"({one.status}: {one.outcome})" if one.outcome else f"({one.status})"
    text = one.result.output.text.strip()
    if len(text) <= MAX_ANSWER_CHARS:
        return text
    return f"{text[:MAX_ANSWER_CHARS]}… (the whole answer: muster task show {one.result.task_id})"
