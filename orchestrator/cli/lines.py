"""What happens, one line each: for logs, pipes and `muster task logs`. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from envelope.events import (
    BudgetReached,
    CallState,
    ChildEnded,
    ChildSpawned,
    GateVerdict,
    MergeStep,
    MessageAdded,
    RetryScheduled,
    StateChanged,
    TextDelta,
    ToolCallChanged,
    TurnFinished,
    WarningRaised,
)
from envelope.messages import TaskResult
from transport.base import Entry

from ..session import Session, TaskView
from .console import plain
from .tree import GLYPHS
from .units import dollars, duration, tokens

Format = Callable[[Session, Any], str]


def milestones(session: Session, entry: Entry) -> Iterator[str]:
    """The few lines of an entry that somebody who waits wants to read. Of a child's end its parent tells."""
    if not isinstance(entry.message, TaskResult) or entry.message.task_id == session.root:
        yield from _lines(session, entry, MILESTONES)


def details(session: Session, entry: Entry) -> Iterator[str]:
    """All that is worth a line afterwards, text of the model and output of the tools included."""
    yield from _lines(session, entry, DETAILS)


def _lines(session: Session, entry: Entry, formats: dict[type[Any], Format]) -> Iterator[str]:
    message = entry.message
    task = session.tasks.get(message.task_id) or TaskView(message.task_id)
    if isinstance(message, TaskResult):
        yield f"{_who(task)}: {_ending(task, message)}"
        return
    for event in message.events:
        form = formats.get(type(event))
        if form and (text := form(session, event)):
            for line in text.splitlines():
                yield f"{_who(task)}: {plain(line.expandtabs())}"


def _who(task: TaskView) -> str:
    return f"{task.agent or 'task'} {plain(task.title)}".strip()


def _ending(task: TaskView, result: TaskResult) -> str:
    glyph, _ = GLYPHS[result.status]
    metrics = result.metrics
    spent = f", {tokens(metrics.usage.total_tokens)}, {dollars(metrics.cost_microusd)}" if metrics.turns else ""
    why = f": {plain(result.errors[0].message)}" if result.errors else ""
    return f"{glyph} {result.status} after {duration(metrics.latency_ms)}{spent}{why}"


def _child_ended(session: Session, event: ChildEnded) -> str:
    child = session.tasks[event.child_task_id]
    glyph, _ = GLYPHS[event.state]
    why = f": {event.error.splitlines()[0]}" if event.error else " (as before)" if event.reused else ""
    return f"{glyph} {_who(child)} {event.state}{why}"


def _gate(_: Session, event: GateVerdict) -> str:
    return f"gate {event.phase}: {verdict_text(event)}"


def verdict_text(event: GateVerdict) -> str:
    """`passed, 250 tests (2 skipped)`."""
    counts = "tests not counted" if event.tests is None else f"{event.tests} test{'' if event.tests == 1 else 's'}"
    asides = ((event.failed, "failed"), (event.skipped, "skipped"))
    aside = ", ".join(f"{count} {name}" for count, name in asides if count)
    detail = f": {event.detail.splitlines()[0]}" if event.detail and not event.passed else ""
    return f"{'passed' if event.passed else 'failed'}, {counts}{f' ({aside})' if aside else ''}{detail}"


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
    return "\n".join([head, *(f"  {line}" for line in event.output.splitlines())])


MILESTONES: dict[type[Any], Format] = {
    ChildSpawned: lambda session, event: f"started {_who(session.tasks[event.child_task_id])}",
    ChildEnded: _child_ended,
    GateVerdict: _gate,
    MergeStep: _merge,
    WarningRaised: lambda _, event: f"warning: {event.message}",
    BudgetReached: lambda _, event: f"budget reached: {event.spent} of {event.allowed} ({event.limit})",
    RetryScheduled: lambda _, event: f"tries again in {duration(event.wait_ms)}: {event.reason}",
}
DETAILS: dict[type[Any], Format] = {
    **MILESTONES,
    StateChanged: lambda _, event: f"{event.state} {event.reason}".rstrip(),
    TextDelta: lambda _, event: event.text,
    MessageAdded: lambda _, event: f"{event.role}: {event.text}",
    ToolCallChanged: _call,
    TurnFinished: lambda _, event: (
        f"turn {event.turn}: {event.finish_reason}, {tokens(event.usage.total_tokens)}, {dollars(event.cost_microusd)}"
    ),
    MergeStep: lambda session, event: _merge(session, event) or f"merge: {event.key} {event.outcome}",
}
