"""One task as people see it, put together from what it says itself and from what its parent says of it."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, dataclass, field, fields
from typing import Any, NoReturn

from envelope.budget import Usage
from envelope.events import BudgetReached, ChildEnded, ChildSpawned, GateVerdict, MergeStep, Todo, WarningRaised
from envelope.lifecycle import TERMINAL, State
from envelope.messages import TaskResult
from envelope.plan import Plan

from .line import At, Line


@dataclass(frozen=True, slots=True)
class ToolView:
    """A tool call that is under way."""

    tool: str
    title: str


@dataclass(frozen=True, slots=True)
class Spent:
    """What model calls took."""

    usage: Usage = field(default_factory=Usage)
    cost_microusd: int = 0

    def __add__(self, other: Spent) -> Spent:
        return Spent(self.usage + other.usage, self.cost_microusd + other.cost_microusd)


@dataclass(slots=True)
class TaskView:
    """Times are the queue's, in ms; None: not yet, or not known. Cost, usage and counts are the task's own only.

    The two accounts are kept apart, so that it does not matter which one comes first. Only the fold changes one, and
    puts a new collection in the place of an old one, so that a copy of the fields stays what it is.
    """

    task_id: str
    own_trace_id: str = ""
    parent: str | None = None
    own_title: str = ""
    live_state: State = State.PENDING
    reason: str = ""  # why it is pending again, or what it waits for
    attempt: int = 0
    worker: str = ""
    turn: int = 0
    model: str = ""  # that it called last
    by_model: dict[str, Spent] = field(default_factory=dict[str, Spent])  # turns that were told, lost attempts' too
    running_tools: dict[str, ToolView] = field(default_factory=dict[str, ToolView])  # by call id, oldest first
    tool_calls: int = 0
    live_usage: Usage = field(default_factory=Usage)
    live_cost_microusd: int = 0
    started_at_ms: int | None = None
    own_line: Line = ()
    children: tuple[str, ...] = ()
    merges: tuple[MergeStep, ...] = ()
    gates: tuple[GateVerdict, ...] = ()
    warnings: tuple[WarningRaised, ...] = ()
    stopped_by: BudgetReached | None = None  # the grant that was used up when its last turn could not begin
    asks: dict[str, str] = field(default_factory=dict[str, str])  # open questions by their ids
    files: dict[str, str] = field(default_factory=dict[str, str])  # A, M or D by path
    todos: tuple[Todo, ...] = ()
    plan: Plan | None = None  # that its agent keeps up to date
    partial_output: str = ""
    result: TaskResult | None = None
    spawned: ChildSpawned | None = None  # what the parent said when it made the task
    spawned_at_ms: int | None = None
    parent_saw: ChildEnded | None = None  # and when it ended
    parent_saw_at_ms: int | None = None

    @property
    def trace_id(self) -> str:
        return self.own_trace_id or (self.spawned.trace_id if self.spawned else "")

    @property
    def agent(self) -> str:
        return self.spawned.agent if self.spawned else ""

    @property
    def title(self) -> str:
        return self.own_title or (self.spawned.title if self.spawned else "")

    @property
    def state(self) -> State:
        if self.result is not None:
            return self.result.status
        return self.parent_saw.state if self.parent_saw else self.live_state

    @property
    def ended(self) -> bool:
        return self.state in TERMINAL

    @property
    def current_tool(self) -> ToolView | None:
        return None if self.ended else next(reversed(self.running_tools.values()), None)

    @property
    def usage(self) -> Usage:
        return self.result.metrics.usage if self.result is not None else self.live_usage

    @property
    def cost_microusd(self) -> int:
        if self.result is not None:
            return self.result.metrics.cost_microusd
        return self.parent_saw.cost_microusd if self.parent_saw else self.live_cost_microusd

    @property
    def ended_at_ms(self) -> int | None:
        if self.result is not None and self.started_at_ms is not None:
            return self.started_at_ms + self.result.metrics.latency_ms
        return self.parent_saw_at_ms

    @property
    def line(self) -> Line:
        """What it was at, from when on; its first wait for a worker begins when its parent made it."""
        first_ms = self.own_line[0][1] if self.own_line else self.spawned_at_ms
        if self.spawned_at_ms is None or first_ms is None or (self.own_line and self.spawned_at_ms >= first_ms):
            return self.own_line
        return ((At.QUEUED, self.spawned_at_ms), *self.own_line)

    @property
    def reused(self) -> bool:
        """The result of an earlier run stood for the same work."""
        return self.parent_saw is not None and self.parent_saw.reused

    @property
    def error(self) -> str:
        if self.result is not None:
            return self.result.errors[0].message if self.result.errors else ""
        return self.parent_saw.error if self.parent_saw else ""

    @property
    def hint(self) -> str:
        return self.result.errors[0].hint if self.result is not None and self.result.errors else ""


class _Frozen(TaskView):
    __slots__ = ()

    def __setattr__(self, name: str, value: Any) -> NoReturn:
        raise FrozenInstanceError(f"cannot change {name!r} of a snapshot")


NAMES = tuple(each.name for each in fields(TaskView))


def frozen(task: TaskView) -> TaskView:
    """The task as it is now, and stays."""
    copy = object.__new__(_Frozen)
    for name in NAMES:
        object.__setattr__(copy, name, getattr(task, name))
    return copy
