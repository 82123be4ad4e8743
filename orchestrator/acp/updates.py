"""What happens in a trace, as the updates of a session."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from acp import (
    plan_entry,
    start_tool_call,
    update_agent_message_text,
    update_agent_thought_text,
    update_plan,
    update_tool_call,
    update_user_message_text,
)
from acp.schema import Cost, CurrentModeUpdate, PlanEntryStatus, SessionInfoUpdate, ToolCallStatus, UsageUpdate

from envelope.budget import MICROUSD_PER_USD
from envelope.events import (
    AskAnswered,
    AskOpened,
    CallState,
    ChildSpawned,
    GateVerdict,
    MessageAdded,
    PlanChanged,
    ReasoningDelta,
    RetryScheduled,
    StateChanged,
    TextDelta,
    TitleSet,
    TodoUpdated,
    ToolCallChanged,
    TurnFinished,
    TurnStarted,
    WarningRaised,
)
from envelope.lifecycle import State
from envelope.messages import TaskResult
from envelope.plan import StepStatus
from transport.base import Entry

from ..gating.text import gate_name, verdict_text
from ..goal_work import CARRY_OUT
from ..session.fold import Session
from ..session.task import TaskView
from ..submit import RUN, VERIFY
from ..units import duration
from ..words import short
from .asking import about_ask
from .calls import (
    TOLD_OTHERWISE,
    input_content,
    kind_of,
    locations_of,
    output_content,
    text_content,
    title_of,
)
from .texts import clipped, shown

STATUS: Mapping[CallState, ToolCallStatus] = {
    CallState.PENDING: "pending",
    CallState.RUNNING: "in_progress",
    CallState.COMPLETED: "completed",
    CallState.ERROR: "failed",
}
STEPS: Mapping[str, PlanEntryStatus] = {
    StepStatus.RUNNING: "in_progress",
    StepStatus.DONE: "completed",
    StepStatus.FAILED: "completed",
    StepStatus.SKIPPED: "completed",
}
TITLE_CHARS = 200


@dataclass
class Teller:
    """Of one session. `mode` is the agent that it is with; `said`: the words of the agent that went out.

    What was told once is updated and not told again, as an attempt that follows another would.
    """

    root: Path
    mode: str
    said: bool = False
    name: str = ""  # that somebody gave the session
    heard: set[str] = field(default_factory=set[str])  # words that the editor has itself
    costs: Mapping[str, int] = field(default_factory=dict[str, int])  # of the session's tasks, in micro-dollars
    _states: dict[str, State] = field(default_factory=dict[str, State])
    _windows: dict[str, int] = field(default_factory=dict[str, int])  # of the models that tasks talk with, in tokens
    _calls: dict[str, list[Any] | None] = field(default_factory=dict[str, "list[Any] | None"])

    def updates(self, view: Session, entry: Entry) -> Iterator[Any]:
        message = entry.message
        if isinstance(message, TaskResult):
            return
        task = view.tasks[message.task_id]
        for event in message.events:
            if tell := TELLING.get(type(event)):
                yield from tell(self, view, task, event)

    def moved(self, view: Session, task: TaskView, event: StateChanged) -> Iterator[Any]:
        """Why an agent at work starts anew: what it had begun to say is said again."""
        before, self._states[task.task_id] = self._states.get(task.task_id), event.state
        if is_main(view, task) and (before, event.state) == (State.RUNNING, State.PENDING) and event.reason:
            yield update_agent_thought_text(shown(f"\n{event.reason}; it goes on from its last turn\n"))

    def text(self, view: Session, task: TaskView, event: TextDelta) -> Iterator[Any]:
        if is_main(view, task) and event.text:
            self.said = True
            yield update_agent_message_text(shown(event.text))

    def thought(self, view: Session, task: TaskView, event: ReasoningDelta) -> Iterator[Any]:
        if is_main(view, task) and event.text:
            yield update_agent_thought_text(shown(event.text))

    def message(self, view: Session, task: TaskView, event: MessageAdded) -> Iterator[Any]:
        """What somebody said at another door; what was said here, the editor shows already."""
        if event.role != "user" or event.synthetic or not is_main(view, task) or event.text == CARRY_OUT:
            return
        if event.text in self.heard:
            self.heard.discard(event.text)
            return
        yield update_user_message_text(shown(event.text))

    def call(self, view: Session, task: TaskView, event: ToolCallChanged) -> Iterator[Any]:
        """Told when it is first heard of, updated from then on. Its output is told, too, but of an edit that went well,
        whose texts before and after say enough."""
        if task.agent == VERIFY or event.tool in TOLD_OTHERWISE:
            return
        call_id = f"{short(task.task_id)}:{event.call_id}"
        title = title_of(event.tool, event.title, "" if is_main(view, task) else task.agent)
        given = event.input or {}
        content = input_content(event.tool, given, self.root) or self._calls.get(call_id)
        locations = locations_of(given, self.root)
        what: dict[str, Any] = {"status": STATUS[event.state], "locations": locations}
        if event.state in (CallState.COMPLETED, CallState.ERROR):
            shows_all = kind_of(event.tool) == "edit" and event.state is CallState.COMPLETED
            what["content"] = content if shows_all else output_content(content, event.output)
        else:
            what["content"] = content
        if call_id in self._calls:
            yield update_tool_call(call_id, title=title, **what)
        else:
            yield start_tool_call(call_id, title, kind=kind_of(event.tool), **what)
        self._calls[call_id] = content

    def asked(self, view: Session, task: TaskView, event: AskOpened) -> Iterator[Any]:
        if event.ask_id not in self._calls:
            about = about_ask(event, "" if is_main(view, task) else task.agent)
            self._calls[event.ask_id] = about.content
            yield start_tool_call(
                event.ask_id, about.title or "", kind=about.kind, status="pending", content=about.content
            )

    def answered(self, view: Session, task: TaskView, event: AskAnswered) -> Iterator[Any]:
        if event.ask_id in self._calls:
            words = event.answer + (f": {event.comment}" if event.comment else "")
            said = text_content(shown(f"{words}{f' (by {event.by})' if event.by else ''}"))
            status: ToolCallStatus = "failed" if event.answer == "reject" else "completed"
            content = [*(self._calls[event.ask_id] or []), said]
            yield update_tool_call(event.ask_id, status=status, content=content)

    def began(self, view: Session, task: TaskView, event: TurnStarted) -> Iterator[Any]:
        self._windows[task.task_id] = event.window_tokens
        return iter(())

    def took(self, view: Session, task: TaskView, event: TurnFinished) -> Iterator[Any]:
        """How full the window of the agent's model is, where that is known; what the session has cost goes along."""
        size = self._windows.get(task.task_id, 0)
        if size and is_main(view, task) and event.usage.total_tokens:
            earlier = sum(cost for task_id, cost in self.costs.items() if task_id != view.root)
            cost = Cost(amount=(earlier + view.cost_microusd) / MICROUSD_PER_USD, currency="USD")
            used = min(size, event.usage.total_tokens)  # tries that broke off are counted, too
            yield UsageUpdate(session_update="usage_update", used=used, size=size, cost=cost)

    def todos(self, view: Session, task: TaskView, event: TodoUpdated) -> Iterator[Any]:
        if is_main(view, task):
            yield update_plan(
                plan_entry(shown(todo.content), priority=todo.priority, status=todo.status)
                for todo in event.todos
                if todo.status != "cancelled"
            )

    def plan(self, view: Session, task: TaskView, event: PlanChanged) -> Iterator[Any]:
        yield update_plan(
            plan_entry(shown(step.title or step.goal), status=STEPS.get(step.status, "pending"))
            for step in event.plan.steps
        )

    def gate(self, view: Session, task: TaskView, event: GateVerdict) -> Iterator[Any]:
        call_id = f"{short(task.task_id)}:gate:{gate_name(event)}"
        if call_id not in self._calls:
            status: ToolCallStatus = "completed" if event.passed else "failed"
            content = self._calls[call_id] = [text_content(shown(f"{verdict_text(event)}\n{event.detail}".strip()))]
            yield start_tool_call(call_id, f"gate {gate_name(event)}", kind="execute", status=status, content=content)

    def child(self, view: Session, task: TaskView, event: ChildSpawned) -> Iterator[Any]:
        """A plan that was approved is carried out by another agent, in the same session."""
        if task.task_id == view.root and task.agent == RUN and event.agent not in (VERIFY, self.mode):
            self.mode = event.agent
            yield CurrentModeUpdate(session_update="current_mode_update", current_mode_id=event.agent)

    def titled(self, view: Session, task: TaskView, event: TitleSet) -> Iterator[Any]:
        if is_main(view, task):
            self.name = clipped(" ".join(shown(event.title).split()), TITLE_CHARS)
            yield SessionInfoUpdate(session_update="session_info_update", title=self.name)

    def warning(self, view: Session, task: TaskView, event: WarningRaised) -> Iterator[Any]:
        yield update_agent_thought_text(shown(f"warning: {event.message}\n"))

    def retry(self, view: Session, task: TaskView, event: RetryScheduled) -> Iterator[Any]:
        yield update_agent_thought_text(shown(f"tries again in {duration(event.wait_ms)}: {event.reason}\n"))


def is_main(view: Session, task: TaskView) -> bool:
    """Is it the agent that the person talks to?"""
    if view.root_task.agent != RUN:
        return task.task_id == view.root
    return task.parent == view.root and task.agent != VERIFY


TELLING: dict[type[Any], Callable[[Teller, Session, TaskView, Any], Iterator[Any]]] = {
    StateChanged: Teller.moved,
    TextDelta: Teller.text,
    ReasoningDelta: Teller.thought,
    MessageAdded: Teller.message,
    ToolCallChanged: Teller.call,
    AskOpened: Teller.asked,
    AskAnswered: Teller.answered,
    TodoUpdated: Teller.todos,
    TurnStarted: Teller.began,
    TurnFinished: Teller.took,
    PlanChanged: Teller.plan,
    GateVerdict: Teller.gate,
    ChildSpawned: Teller.child,
    TitleSet: Teller.titled,
    WarningRaised: Teller.warning,
    RetryScheduled: Teller.retry,
}
