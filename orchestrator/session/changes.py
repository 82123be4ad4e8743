"""What each kind of event changes in the task that tells it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from envelope.events import (
    AskAnswered,
    AskOpened,
    BudgetReached,
    CallState,
    FileChanged,
    GateVerdict,
    MergeStep,
    PlanChanged,
    Resynced,
    StateChanged,
    TitleSet,
    TodoUpdated,
    ToolCallChanged,
    TurnFinished,
    TurnStarted,
    WarningRaised,
)

from .task import Spent, TaskView, ToolView

T = TypeVar("T")
_OVER = (CallState.COMPLETED, CallState.ERROR)


def _resynced(task: TaskView, _: Resynced) -> None:
    """What was under way is known no longer; it may have ended in what was dropped."""
    task.running_tools, task.asks = {}, {}


def _state(task: TaskView, event: StateChanged) -> None:
    task.worker = event.worker or task.worker
    task.reason = event.reason


def _turn_started(task: TaskView, event: TurnStarted) -> None:
    task.turn = event.turn
    task.model = event.model or task.model
    task.stopped_by = None


def _turn_finished(task: TaskView, event: TurnFinished) -> None:
    task.live_usage += event.usage
    task.live_cost_microusd += event.cost_microusd
    now, before = Spent(event.usage, event.cost_microusd), task.by_model.get(task.model)
    task.by_model = {**task.by_model, task.model: before + now if before else now}


def _tool_call(task: TaskView, event: ToolCallChanged) -> None:
    others = _without(task.running_tools, event.call_id)
    if event.state in _OVER:
        task.tool_calls += 1
        task.running_tools = others
    else:
        task.running_tools = {**others, event.call_id: ToolView(event.tool, event.title)}


def _without(items: dict[str, T], key: str) -> dict[str, T]:
    """What was in it is still there: it may be a snapshot's."""
    if key not in items:
        return items
    left = items.copy()
    del left[key]
    return left


def _plan(task: TaskView, event: PlanChanged) -> None:
    task.plan = event.plan


def _todos(task: TaskView, event: TodoUpdated) -> None:
    task.todos = event.todos


def _title(task: TaskView, event: TitleSet) -> None:
    task.own_title = event.title


def _file(task: TaskView, event: FileChanged) -> None:
    task.files = {**task.files, event.path: event.status}


def _merge(task: TaskView, event: MergeStep) -> None:
    task.merges = (*task.merges, event)


def _gate(task: TaskView, event: GateVerdict) -> None:
    task.gates = (*task.gates, event)


def _warning(task: TaskView, event: WarningRaised) -> None:
    task.warnings = (*task.warnings, event)


def _budget(task: TaskView, event: BudgetReached) -> None:
    task.stopped_by = event


def _ask_opened(task: TaskView, event: AskOpened) -> None:
    task.asks = {**task.asks, event.ask_id: event.question}


def _ask_answered(task: TaskView, event: AskAnswered) -> None:
    task.asks = _without(task.asks, event.ask_id)


# What is not in the table (texts as they stream, kinds from the future) is for other readers.
CHANGES: dict[type[Any], Callable[[TaskView, Any], None]] = {
    Resynced: _resynced,
    StateChanged: _state,
    TurnStarted: _turn_started,
    TurnFinished: _turn_finished,
    ToolCallChanged: _tool_call,
    PlanChanged: _plan,
    TodoUpdated: _todos,
    TitleSet: _title,
    FileChanged: _file,
    MergeStep: _merge,
    GateVerdict: _gate,
    WarningRaised: _warning,
    BudgetReached: _budget,
    AskOpened: _ask_opened,
    AskAnswered: _ask_answered,
}
