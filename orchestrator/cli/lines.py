"""What happens, one line each: for logs, pipes and `muster task logs`. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from envelope.events import (
    AskAnswered,
    AskOpened,
    BudgetReached,
    CallState,
    ChildEnded,
    ChildSpawned,
    GateVerdict,
    MergeStep,
    MessageAdded,
    PlanChanged,
    Resynced,
    RetryScheduled,
    StateChanged,
    TextDelta,
    TodoUpdated,
    ToolCallChanged,
    TurnFinished,
    WarningRaised,
)
from envelope.messages import TaskResult
from transport.base import Entry

from ..gating.text import gate_name, verdict_text
from ..session.fold import Session
from ..session.said import budget_reached, how_far
from ..session.task import TaskView
from ..units import dollars, duration, tokens
from ..words import state_text
from .asking import subject
from .console import plain
from .plan_lines import plan_lines, todo_lines
from .tree import GLYPHS

TITLE_CHARS = 60  # so that a line of a log stays one on most screens

Format = Callable[[Session, Any], str]


def milestones(view: Session, entry: Entry) -> Iterator[str]:
    """The few lines of an entry that somebody who waits wants to read. Of a child's end its parent tells."""
    if not isinstance(entry.message, TaskResult) or entry.message.task_id == view.root:
        yield from _lines(view, entry, MILESTONES)


def details(view: Session, entry: Entry) -> Iterator[str]:
    """All that is worth a line afterwards, text of the model and output of the tools included."""
    yield from _lines(view, entry, DETAILS)


def _lines(view: Session, entry: Entry, formats: dict[type[Any], Format]) -> Iterator[str]:
    message = entry.message
    task = view.tasks.get(message.task_id) or TaskView(message.task_id)
    if isinstance(message, TaskResult):
        yield plain(f"{_name(view, task)}: {_ending(message)}")
        return
    for event in message.events:
        form = formats.get(type(event))
        if form and (text := form(view, event)):
            for line in text.splitlines():
                yield plain(f"{_name(view, task)}: {line.expandtabs()}")


def _name(view: Session, task: TaskView) -> str:
    """The agent, with its title unless that only repeats the goal."""
    agent, title = task.agent or "task", plain(task.title)
    if not title or task.task_id == view.root or plain(view.root_task.title).startswith(title):
        return agent
    return f"{agent} {title if len(title) <= TITLE_CHARS else title[: TITLE_CHARS - 1] + '…'}"


def _ending(result: TaskResult) -> str:
    glyph, _ = GLYPHS[result.status]
    metrics = result.metrics
    spent = f", {tokens(metrics.usage.total_tokens)}, {dollars(metrics.cost_microusd)}" if metrics.turns else ""
    why = f": {result.errors[0].message}" if result.errors else ""
    took = f" after {duration(metrics.latency_ms)}" if metrics.latency_ms else ""  # it never began
    return f"{glyph} {result.status}{took}{spent}{why}"


def _child_ended(view: Session, event: ChildEnded) -> str:
    child = view.tasks[event.child_task_id]
    glyph, _ = GLYPHS[event.state]
    why = f": {event.error.splitlines()[0]}" if event.error else " (as before)" if event.reused else ""
    return f"{glyph} {_name(view, child)} {event.state}{why}"


def _gate(_: Session, event: GateVerdict) -> str:
    return f"gate {gate_name(event)}: {verdict_text(event)}"


def _merge(_: Session, event: MergeStep) -> str:
    if event.outcome != "collision":
        return ""
    others = ", ".join(event.with_keys) or "the base"
    return f"merge: {event.key} collides with {others} in {', '.join(event.paths)}"


def _call(_: Session, event: ToolCallChanged) -> str:
    if event.state not in (CallState.COMPLETED, CallState.ERROR):
        return ""
    took = f" ({duration(event.ended_at_ms - event.started_at_ms)})" if event.ended_at_ms else ""
    head = f"{event.tool} {event.title}{took}{' failed' if event.state is CallState.ERROR else ''}"
    whole = [f"  (the whole output: muster task output TASK {event.call_id})"] if event.output_blob else []
    return "\n".join([head, *(f"  {line}" for line in event.output.splitlines()), *whole])


def _answered(_: Session, event: AskAnswered) -> str:
    said = f": {event.comment}" if event.comment else ""
    word = "" if event.answer == "once" and said else f" {event.answer}"  # what was said to a question is its answer
    return f"answered{word}{f' by {event.by}' if event.by else ''}{said}"


MILESTONES: dict[type[Any], Format] = {
    StateChanged: lambda _, event: state_text(event.state, event.reason) if event.reason else "",
    ChildSpawned: lambda view, event: f"started {_name(view, view.tasks[event.child_task_id])}",
    ChildEnded: _child_ended,
    AskOpened: lambda _, event: f"asks: {subject(event)} (answer: muster ask show {event.ask_id})",
    AskAnswered: _answered,
    PlanChanged: lambda _, event: how_far(event.plan),
    GateVerdict: _gate,
    MergeStep: _merge,
    WarningRaised: lambda _, event: f"warning: {event.message}",
    BudgetReached: lambda _, event: budget_reached(event),
    RetryScheduled: lambda _, event: f"tries again in {duration(event.wait_ms)}: {event.reason}",
}
DETAILS: dict[type[Any], Format] = {
    **MILESTONES,
    StateChanged: lambda _, event: state_text(event.state, event.reason, event.worker),
    Resynced: lambda _, event: "earlier events are no longer kept",
    TextDelta: lambda _, event: event.text,
    MessageAdded: lambda _, event: f"{event.role}: {event.text}",
    ToolCallChanged: _call,
    PlanChanged: lambda _, event: "\n".join(plan_lines(event.plan)),
    TodoUpdated: lambda _, event: "\n".join(todo_lines(event.todos)),
    TurnFinished: lambda _, event: (
        f"turn {event.turn}: {event.finish_reason}, {tokens(event.usage.total_tokens)}, {dollars(event.cost_microusd)}"
    ),
    MergeStep: lambda view, event: _merge(view, event) or f"merge: {event.key} {event.outcome}",
}
