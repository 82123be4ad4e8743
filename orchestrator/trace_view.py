"""What the live tree, the summary and the console show: a fold over the event stream.

Pure: the same entries give the same view, however the streams of several tasks are interleaved, repeated, or cut
and resumed. A reader resumes a trace after `view.cursor(trace_id)`; where entries after that are no longer kept, a
snapshot of each task takes the place of what the view knew of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from envelope.budget import Usage
from envelope.events import (
    AskAnswered,
    AskOpened,
    CallState,
    ChildEnded,
    ChildSpawned,
    GateVerdict,
    MergeStep,
    PlanChanged,
    Resynced,
    StateChanged,
    TitleSet,
    ToolCallChanged,
    TurnFinished,
    TurnStarted,
    WarningRaised,
)
from envelope.lifecycle import State
from envelope.messages import TaskProgress, TaskResult
from transport.base import Entry

from .views import TaskView, ToolView

__all__ = ["TaskView", "ToolView", "TraceView", "fold", "fold_all", "new_view"]


@dataclass(frozen=True, slots=True)
class TraceView:
    """One goal or batch as it is now: its tasks by id, in the order in which they were first heard of."""

    root: str
    tasks: dict[str, TaskView] = field(default_factory=dict[str, TaskView])
    cursors: dict[str, str] = field(default_factory=dict[str, str])  # trace id → the last entry that was folded

    def cursor(self, trace_id: str) -> str:
        return self.cursors.get(trace_id, "0")

    @property
    def root_task(self) -> TaskView:
        return self.tasks[self.root]

    @property
    def cost_microusd(self) -> int:
        return sum(task.cost_microusd for task in self.tasks.values())

    @property
    def usage(self) -> Usage:
        return sum((task.usage for task in self.tasks.values()), Usage())

    @property
    def merges(self) -> tuple[MergeStep, ...]:
        return tuple(step for task in self.tasks.values() for step in task.merges)

    @property
    def gates(self) -> tuple[GateVerdict, ...]:
        return tuple(verdict for task in self.tasks.values() for verdict in task.gates)

    @property
    def warnings(self) -> tuple[WarningRaised, ...]:
        return tuple(warning for task in self.tasks.values() for warning in task.warnings)


def new_view(root_task_id: str, trace_id: str, *, agent: str = "", title: str = "") -> TraceView:
    """A view that has heard nothing yet; `agent` and `title` are the root's, whom no parent introduces."""
    spawned = ChildSpawned(child_task_id=root_task_id, agent=agent, title=title, trace_id=trace_id)
    return TraceView(root_task_id, {root_task_id: TaskView(root_task_id, spawned=spawned)})


def fold_all(view: TraceView, entries: Iterable[Entry]) -> TraceView:
    for entry in entries:
        view = fold(view, entry)
    return view


def fold(view: TraceView, entry: Entry) -> TraceView:
    """The view after one more entry. An entry that was folded before changes nothing."""
    message = entry.message
    if not _is_news(view, entry):
        return view
    view = replace(view, cursors={**view.cursors, message.trace_id: entry.id})
    before = view.tasks.get(message.task_id) or TaskView(message.task_id)
    if before.result is not None or (message.attempt < before.attempt and not _is_last_word(message)):
        return view
    task = replace(_at_attempt(before, message.attempt), own_trace_id=message.trace_id)
    if isinstance(message, TaskResult):
        return _with(view, _ended(task, message))
    view = _with(view, _after(task, message))
    for event in message.events:
        if isinstance(event, ChildSpawned | ChildEnded):
            view = _with_child(view, message, event)
    return view


def _is_news(view: TraceView, entry: Entry) -> bool:
    """Entries after the trace's cursor, and those of a snapshot, which stand at the cursor itself."""
    place, cursor = _order(entry.id), _order(view.cursor(entry.message.trace_id))
    if place != cursor:
        return place > cursor
    if isinstance(entry.message, TaskResult):
        known = view.tasks.get(entry.message.task_id)
        return known is None or known.result is None
    return _is_snapshot(entry.message)


def _is_last_word(message: TaskProgress | TaskResult) -> bool:
    """Results and snapshots: after a failover that forgot a task its attempts are counted anew."""
    return isinstance(message, TaskResult) or _is_snapshot(message)


def _is_snapshot(progress: TaskProgress) -> bool:
    return any(isinstance(event, Resynced) for event in progress.events)


def _order(entry_id: str) -> tuple[int, ...]:
    """Stream ids are numbers joined by dashes; as texts they would not sort."""
    return tuple(int(part) for part in entry_id.split("-"))


def _with(view: TraceView, *tasks: TaskView) -> TraceView:
    return replace(view, tasks={**view.tasks, **{task.task_id: task for task in tasks}})


def _at_attempt(task: TaskView, attempt: int) -> TaskView:
    """A later attempt goes on from a checkpoint: what was under way is not, and a driver merges and judges anew. An
    earlier one has none of the children, either: they were forgotten with it."""
    if attempt == task.attempt:
        return task
    children = task.children if attempt > task.attempt else ()
    return replace(
        task, attempt=attempt, children=children, running_tools={}, merges=(), gates=(), warnings=(), asks={}
    )


def _after(task: TaskView, progress: TaskProgress) -> TaskView:
    for event in progress.events:
        change = _CHANGES.get(type(event))
        if change is not None:
            task = replace(task, **change(task, event))
    if progress.metrics is not None:  # sums, which are exact; the events' own are for the time between them
        metrics = progress.metrics
        task = replace(task, live_usage=metrics.usage, live_cost_microusd=metrics.cost_microusd)
    if progress.status is State.RUNNING and task.started_at_ms is None and not _is_snapshot(progress):
        task = replace(task, started_at_ms=progress.at_ms)
    if progress.partial_output is not None:
        task = replace(task, partial_output=progress.partial_output)
    return replace(task, live_state=progress.status)


def _ended(task: TaskView, result: TaskResult) -> TaskView:
    turn, tool_calls = result.metrics.turns or task.turn, result.metrics.tool_calls or task.tool_calls
    return replace(task, result=result, running_tools={}, asks={}, turn=turn, tool_calls=tool_calls)


def _with_child(view: TraceView, progress: TaskProgress, event: ChildSpawned | ChildEnded) -> TraceView:
    parent, child_id = view.tasks[progress.task_id], event.child_task_id
    child = replace(view.tasks.get(child_id) or TaskView(child_id), parent=parent.task_id)
    if isinstance(event, ChildSpawned):
        spawned = event.model_copy(update={"trace_id": event.trace_id or progress.trace_id})
        # a snapshot knows less of a child than its parent said of it
        child = replace(child, spawned=child.spawned or spawned if _is_snapshot(progress) else spawned)
    else:
        child = replace(child, parent_saw=event, parent_saw_at_ms=progress.at_ms)
    if child_id not in parent.children:
        parent = replace(parent, children=(*parent.children, child_id))
    return _with(view, parent, child)


def _tool_call(task: TaskView, event: ToolCallChanged) -> dict[str, Any]:
    others = {call_id: tool for call_id, tool in task.running_tools.items() if call_id != event.call_id}
    if event.state in (CallState.COMPLETED, CallState.ERROR):
        return {"running_tools": others, "tool_calls": task.tool_calls + 1}
    return {"running_tools": {**others, event.call_id: ToolView(event.tool, event.title)}}


def _turn_finished(task: TaskView, event: TurnFinished) -> dict[str, Any]:
    cost_microusd = task.live_cost_microusd + event.cost_microusd
    return {"live_usage": task.live_usage + event.usage, "live_cost_microusd": cost_microusd}


_CHANGES: dict[type[Any], Callable[[TaskView, Any], dict[str, Any]]] = {
    # what was under way is known no longer; it may have ended in what was dropped
    Resynced: lambda _task, _event: {"running_tools": {}, "asks": {}},
    StateChanged: lambda task, event: {"worker": event.worker or task.worker, "reason": event.reason},
    TurnStarted: lambda _, event: {"turn": event.turn},
    TurnFinished: _turn_finished,
    ToolCallChanged: _tool_call,
    PlanChanged: lambda _, event: {"plan": event.plan},
    TitleSet: lambda _, event: {"own_title": event.title},
    MergeStep: lambda task, event: {"merges": (*task.merges, event)},
    GateVerdict: lambda task, event: {"gates": (*task.gates, event)},
    WarningRaised: lambda task, event: {"warnings": (*task.warnings, event)},
    AskOpened: lambda task, event: {"asks": {**task.asks, event.ask_id: event.question}},
    AskAnswered: lambda task, event: {"asks": {key: text for key, text in task.asks.items() if key != event.ask_id}},
}
