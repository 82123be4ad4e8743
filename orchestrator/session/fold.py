"""What the live tree, the summary and the console show: a fold over the event stream.

Deterministic and without I/O: the same entries give the same session, however the streams of several tasks are
interleaved, repeated, or cut and resumed. A reader resumes a trace after `session.cursor(trace_id)`; where entries
after that are no longer kept, a snapshot of each task takes the place of what the session knew of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import cast

from envelope.budget import Usage
from envelope.events import ChildEnded, ChildSpawned, GateVerdict, MergeStep, Resynced, WarningRaised
from envelope.lifecycle import State
from envelope.messages import TaskProgress, TaskResult
from transport.base import Entry

from .changes import CHANGES
from .line import At, at_of, longer
from .task import TaskView, frozen

_OF_CHILDREN = (ChildSpawned, ChildEnded)

# An entry's id as numbers, which sort; as texts they would not.
Place = tuple[int, ...]
BEGINNING: Place = (0,)


@dataclass(frozen=True, slots=True)
class Session:
    """One goal or batch as it is now: its tasks by id, in the order in which they were first heard of.

    `apply` changes it in place; who needs it to stay as it is, takes a `snapshot`.
    """

    root: str
    tasks: Mapping[str, TaskView]
    places: Mapping[str, Place] = field(default_factory=dict[str, Place])  # trace id → the last entry that was folded

    @classmethod
    def of(cls, root_task_id: str, trace_id: str, *, agent: str = "", title: str = "") -> Session:
        """A session that has heard nothing yet; `agent` and `title` are the root's, whom no parent introduces."""
        spawned = ChildSpawned(child_task_id=root_task_id, agent=agent, title=title, trace_id=trace_id)
        return cls(root_task_id, {root_task_id: TaskView(root_task_id, spawned=spawned)})

    def snapshot(self) -> Session:
        """As it is now, read-only to its leaves: `apply` to one raises `TypeError`."""
        tasks = {task_id: frozen(task) for task_id, task in self.tasks.items()}
        return replace(self, tasks=MappingProxyType(tasks), places=MappingProxyType(dict(self.places)))

    def cursor(self, trace_id: str) -> str:
        """The id of the last entry of a trace that was folded; `0` when none was."""
        return "-".join(map(str, self.places.get(trace_id, BEGINNING)))

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
    def without_money(self) -> int:
        """Tasks that go on once a cap is raised."""
        return sum(task.state is State.WAITING and task.stopped_by is not None for task in self.tasks.values())

    @property
    def merges(self) -> tuple[MergeStep, ...]:
        return tuple(step for task in self.tasks.values() for step in task.merges)

    @property
    def gates(self) -> tuple[GateVerdict, ...]:
        return tuple(verdict for task in self.tasks.values() for verdict in task.gates)

    @property
    def warnings(self) -> tuple[WarningRaised, ...]:
        """Each once: several tasks may tell the same of one file."""
        return tuple(dict.fromkeys(warning for task in self.tasks.values() for warning in task.warnings))


def apply_all(session: Session, entries: Iterable[Entry]) -> Session:
    """The same session, after all of them."""
    for entry in entries:
        apply(session, entry)
    return session


def apply(session: Session, entry: Entry) -> bool:
    """Take in one more entry; False when it was taken in before, and nothing has changed."""
    message = entry.message
    is_result = isinstance(message, TaskResult)
    is_snapshot = not is_result and _is_snapshot(message)
    place, cursor = tuple(map(int, entry.id.split("-"))), session.places.get(message.trace_id, BEGINNING)
    if place <= cursor and not (place == cursor and _is_told_by_snapshot(session, message, is_snapshot=is_snapshot)):
        return False
    cast("dict[str, Place]", session.places)[message.trace_id] = place
    task = session.tasks.get(message.task_id) or _new_task(session, message.task_id)
    # after a failover that forgot a task its attempts are counted anew
    if task.result is not None or (message.attempt < task.attempt and not (is_snapshot or is_result)):
        return True
    if message.attempt != task.attempt:
        _go_to_attempt(task, message.attempt)
    task.own_trace_id = message.trace_id
    if is_result:
        _end(task, message)
    else:
        _take(session, task, message, is_snapshot=is_snapshot)
    return True


def _is_told_by_snapshot(session: Session, message: TaskProgress | TaskResult, *, is_snapshot: bool) -> bool:
    """Of entries at the trace's cursor itself, where those of a snapshot stand."""
    if isinstance(message, TaskProgress):
        return is_snapshot
    known = session.tasks.get(message.task_id)
    return known is None or known.result is None


def _is_snapshot(progress: TaskProgress) -> bool:
    # a generator takes three times as long, and this sees each entry
    for event in progress.events:  # noqa: SIM110
        if type(event) is Resynced:
            return True
    return False


def _new_task(session: Session, task_id: str) -> TaskView:
    task = cast("dict[str, TaskView]", session.tasks)[task_id] = TaskView(task_id)
    return task


def _go_to_attempt(task: TaskView, attempt: int) -> None:
    """A later attempt goes on from a checkpoint: what was under way is not, and a driver merges and judges anew. An
    earlier one has none of the children, either: they were forgotten with it."""
    if attempt < task.attempt:
        task.children = ()
    task.attempt = attempt
    task.running_tools, task.asks = {}, {}
    task.merges, task.gates, task.warnings = (), (), ()


def _take(session: Session, task: TaskView, progress: TaskProgress, *, is_snapshot: bool) -> None:
    for event in progress.events:
        known = CHANGES.get(type(event))
        if known is not None:
            known(task, event)
        elif isinstance(event, _OF_CHILDREN):
            _take_child(session, task, progress, event, is_snapshot=is_snapshot)
    if progress.metrics is not None:  # sums, which are exact; the events' own are for the time between them
        task.live_usage, task.live_cost_microusd = progress.metrics.usage, progress.metrics.cost_microusd
    if progress.status is State.RUNNING and task.started_at_ms is None and not is_snapshot:
        task.started_at_ms = progress.at_ms
    if progress.partial_output is not None:
        task.partial_output = progress.partial_output
    task.live_state = progress.status
    at = _at(session, task, progress.status)
    if at is not None and (not task.own_line or task.own_line[-1][0] is not at):
        task.own_line = longer(task.own_line, at, progress.at_ms)


def _at(session: Session, task: TaskView, state: State) -> At | None:
    """A driver, which calls no model, waits for its tasks as far as it tells of them: their own traces may be ahead."""
    if state is State.RUNNING and task.children and not task.turn:
        waits = any(session.tasks[child].parent_saw is None for child in reversed(task.children))
        return At.WAITING if waits else At.TOGETHER
    return at_of(state, turn=task.turn, uses_tools=bool(task.running_tools))


def _end(task: TaskView, result: TaskResult) -> None:
    task.result = result
    task.running_tools, task.asks = {}, {}
    task.turn = result.metrics.turns or task.turn
    task.tool_calls = result.metrics.tool_calls or task.tool_calls


def _take_child(
    session: Session, parent: TaskView, progress: TaskProgress, event: ChildSpawned | ChildEnded, *, is_snapshot: bool
) -> None:
    child = session.tasks.get(event.child_task_id) or _new_task(session, event.child_task_id)
    child.parent = parent.task_id
    if isinstance(event, ChildEnded):
        child.parent_saw, child.parent_saw_at_ms = event, progress.at_ms
    elif not (is_snapshot and child.spawned):  # a snapshot knows less of a child than its parent said of it
        child.spawned = event.model_copy(update={"trace_id": event.trace_id or progress.trace_id})
        if child.spawned_at_ms is None and not is_snapshot:
            child.spawned_at_ms = progress.at_ms
    if child.task_id not in parent.children:
        parent.children = (*parent.children, child.task_id)
