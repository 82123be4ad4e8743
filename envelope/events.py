"""What happens in a task, as a closed union; what a newer sender adds arrives as `UnknownEvent`."""

from __future__ import annotations

import json
from enum import StrEnum
from typing import Annotated, Any, Literal, get_args

from pydantic import ConfigDict, Discriminator, Field, Tag

from .asks import Question
from .budget import Usage
from .ids import digest_of
from .lifecycle import State
from .plan import Plan
from .wire import Tagged, Wire


class StateChanged(Tagged):
    kind: Literal["state"] = "state"
    state: State
    reason: str = ""
    worker: str = ""


class TurnStarted(Tagged):
    kind: Literal["turn_started"] = "turn_started"
    turn: int
    model: str = ""
    window_tokens: int = 0  # that the model has; 0: nobody knows


class TextDelta(Tagged):
    kind: Literal["text"] = "text"
    text: str


class ReasoningDelta(Tagged):
    kind: Literal["reasoning"] = "reasoning"
    text: str


class CallState(StrEnum):
    PENDING = "pending"
    RUNNING = "running"
    COMPLETED = "completed"
    ERROR = "error"


class ToolCallChanged(Tagged):
    """`output` is a short look for people; the model got more. `output_blob` holds what even the model saw cut."""

    kind: Literal["tool_call"] = "tool_call"
    call_id: str
    tool: str
    state: CallState
    title: str = ""
    input: dict[str, Any] | None = None
    output: str = ""
    output_blob: str = ""
    started_at_ms: int = 0
    ended_at_ms: int = 0


class ToolInputDelta(Tagged):
    kind: Literal["tool_input"] = "tool_input"
    call_id: str
    text: str


class TurnFinished(Tagged):
    kind: Literal["turn_finished"] = "turn_finished"
    turn: int
    finish_reason: str
    usage: Usage = Usage()
    cost_microusd: int = 0


class MessageAdded(Tagged):
    """`synthetic`: put there by Muster, not by a person or a model."""

    kind: Literal["message"] = "message"
    role: Literal["user", "assistant", "system", "tool"]
    text: str
    synthetic: bool = False


class FileChanged(Tagged):
    kind: Literal["file"] = "file"
    path: str
    status: Literal["A", "M", "D"] = "M"


MAX_SHOWN_CHARS = 128 * 1024  # of a whole ask as JSON: a change of 20 KiB, commands, rules


class AskOpened(Tagged):
    """Told again by each attempt that still waits for the answer. `always`: what that answer would allow."""

    kind: Literal["ask_opened"] = "ask_opened"
    ask_id: str
    permission: str
    patterns: tuple[str, ...] = ()
    question: str = ""
    detail: str = ""  # the exact command or diff
    always: tuple[str, ...] = ()
    questions: tuple[Question, ...] = ()  # of the tool `question`
    until_ms: int = 0  # after this moment, on the store's clock, the answer is no

    @property
    def is_too_long(self) -> bool:
        """Longer than a worker asks: whoever has to be shown it in one piece, to say yes to all of it, is not."""
        return len(self.model_dump_json()) > MAX_SHOWN_CHARS

    def digest(self) -> str:
        """Of what a person sees and says yes to, which an answer is signed with.

        Field by field: of what a newer worker adds an older program knows nothing, and its answers count all the same.
        """
        questions = [
            [each.header, each.question, [[one.label, one.description] for one in each.options], each.multiple]
            for each in self.questions
        ]
        shown = [self.permission, self.patterns, self.question, self.detail, self.always, questions]
        return digest_of(json.dumps(shown, ensure_ascii=False))


class AskAnswered(Tagged):
    kind: Literal["ask_answered"] = "ask_answered"
    ask_id: str
    answer: str
    by: str = ""
    comment: str = ""


class Todo(Wire):
    content: str
    status: Literal["pending", "in_progress", "completed", "cancelled"] = "pending"
    priority: Literal["high", "medium", "low"] = "medium"


class TodoUpdated(Tagged):
    kind: Literal["todo"] = "todo"
    todos: tuple[Todo, ...]


class PlanChanged(Tagged):
    kind: Literal["plan"] = "plan"
    plan: Plan


class TitleSet(Tagged):
    kind: Literal["title"] = "title"
    title: str


class RetryScheduled(Tagged):
    kind: Literal["retry"] = "retry"
    attempt: int
    wait_ms: int
    reason: str


class Compacted(Tagged):
    kind: Literal["compaction"] = "compaction"
    tokens_before: int = 0
    tokens_after: int = 0


class ChildSpawned(Tagged):
    kind: Literal["child_spawned"] = "child_spawned"
    child_task_id: str
    agent: str
    title: str = ""
    background: bool = False  # from its start: its parent never waits for it
    trace_id: str = ""  # given when the child is a trace of its own (a batch's shard)


class ChildEnded(Tagged):
    kind: Literal["child_ended"] = "child_ended"
    child_task_id: str
    state: State
    reused: bool = False  # the result of an earlier run stood for the same work
    cost_microusd: int = 0
    error: str = ""


class BudgetReached(Tagged):
    kind: Literal["budget"] = "budget"
    limit: Literal["cost", "tokens", "turns", "tool_calls"]
    spent: int
    allowed: int
    whose: str = "task"  # or trace, or tenant


class MergeStep(Tagged):
    kind: Literal["merge"] = "merge"
    key: str
    outcome: Literal["applied", "empty", "collision", "set_aside"]
    paths: tuple[str, ...] = ()
    with_keys: tuple[str, ...] = ()
    detail: str = ""


class GateVerdict(Tagged):
    """What the platform saw when it ran the project's own commands. `tests` is None when they could not be counted.

    `about` tells a further run from the first of its phase: why it was made. `failing` names tests, as far as known.
    """

    kind: Literal["gate"] = "gate"
    phase: Literal["before", "after"]
    passed: bool
    tests: int | None = None
    failed: int = 0
    skipped: int = 0
    detail: str = ""
    about: str = ""
    failing: tuple[str, ...] = ()
    counted_by: str = ""
    coverage_percent: float | None = None
    task_id: str = ""


class WarningRaised(Tagged):
    """`code` is a fixed word for what programs count; empty for everything else."""

    kind: Literal["warning"] = "warning"
    message: str
    hint: str = ""
    code: str = ""


class Resynced(Tagged):
    """Earlier entries of the stream are no longer kept; the message that holds this tells where its task is now."""

    kind: Literal["resynced"] = "resynced"


class UnknownEvent(Wire):
    """An event of a newer sender: of a kind, or with a word in it, that is not known here.

    Kept whole, and written again as it came.
    """

    model_config = ConfigDict(frozen=True, extra="allow")

    kind: str

    @property
    def data(self) -> dict[str, Any]:
        """Every field but `kind`."""
        return self.model_extra or {}


Known = Annotated[
    StateChanged
    | TurnStarted
    | TextDelta
    | ReasoningDelta
    | ToolCallChanged
    | ToolInputDelta
    | TurnFinished
    | MessageAdded
    | FileChanged
    | AskOpened
    | AskAnswered
    | TodoUpdated
    | PlanChanged
    | TitleSet
    | RetryScheduled
    | Compacted
    | ChildSpawned
    | ChildEnded
    | BudgetReached
    | MergeStep
    | GateVerdict
    | WarningRaised
    | Resynced,
    Field(discriminator="kind"),
]
KNOWN: tuple[type[Wire], ...] = get_args(get_args(Known)[0])
KINDS: dict[str, type[Wire]] = {event.model_fields["kind"].default: event for event in KNOWN}


def _tag(value: Any) -> str:
    if isinstance(value, dict):
        # Once per event: a call of `cast` would cost as much as all the rest.
        kind: Any = value.get("kind")  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        return "known" if isinstance(kind, str) and kind in KINDS else "unknown"
    # of a known kind, perhaps, but with a newer word in it (see `newer.py`)
    return "unknown" if isinstance(value, UnknownEvent) else "known"


Event = Annotated[
    Annotated[Known, Tag("known")] | Annotated[UnknownEvent, Tag("unknown")],
    Discriminator(_tag),
]
