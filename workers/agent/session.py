"""A session: all the state of an agent's work. It can be stored after any turn and finished in another process."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field

from envelope.budget import Budget, Usage
from envelope.errors import ErrorCode
from envelope.messages import ErrorInfo, ToolCallSummary
from envelope.plan import Plan
from envelope.redaction import redact_known

from ..llm.base import ChatMessage
from ..tools.background import Background
from .calls import Answered
from .compaction import Compaction

# How to go on with the session of a task that has ended; `Outcome.errors` fills the task in.
PROMPT_IT = 'muster task prompt {task} "…"'


class Outcome(BaseModel):
    """How the loop ended: `error` is None when the model gave its answer. `next_agent`: who goes on in the session,
    as a person has agreed. `hint`: may name the task as `{task}`, whose id the loop does not know."""

    model_config = ConfigDict(frozen=True)

    text: str = ""
    structured: dict[str, Any] | None = None  # of a task that wants an answer of a certain form
    error: ErrorCode | None = None
    detail: str = ""
    hint: str = ""
    next_agent: str = ""

    def errors(self, task_id: str) -> tuple[ErrorInfo, ...]:
        """Of the result of this task."""
        if self.error is None:
            return ()
        return (ErrorInfo.of(self.error, self.detail, self.hint.replace("{task}", task_id)),)


class Due(StrEnum):
    """Why a compaction is to come before the next turn."""

    FULL = "full"
    OVERFLOW = "overflow"  # the provider refused the request
    ASKED = "asked"  # by a person; comes even when there is no next turn


class Counted(BaseModel):
    """What a provider counted: the window with the session's first `messages` had so many tokens, replies included.

    `tool_tokens`: how many of these the tools that were offered then had at most. `files`: the blobs of the files that
    were sent, one that was sent twice, twice.
    """

    model_config = ConfigDict(frozen=True)

    messages: int
    tokens: int
    tool_tokens: int = 0
    files: tuple[str, ...] = ()


class Stored(BaseModel):
    """What goes into the blob store, as JSON. Frozen: a step makes a new one."""

    model_config = ConfigDict(frozen=True)

    def dump(self) -> bytes:
        """A key of ours that a model or a tool came to say is not stored with it."""
        return redact_known(self.model_dump_json()).encode()

    @classmethod
    def load(cls, data: bytes) -> Self:
        return cls.model_validate_json(data)


class Session(Stored):
    """`changes` is the blob of the work's diff (see `task_sandbox.py`) after the last turn that may have written; None
    while nothing was.

    `previous_agent`: whose session this one goes on with, before the latest prompt.

    `open_turn`: the calls of the last message, while some of them wait for a subagent or a person; they get their
    answers together, in their order. Empty when the turn is over. `messages` and `tool_calls` only ever grow at their
    end. `approved_in`: tasks in which people have answered "always"; what they allowed is in their signed answers
    alone, for whoever can write to the fleet's Redis can write a session. `background`: subagents of whose end the
    model will hear.

    What a model is shown of the messages begins with `compaction`; `due`: another one is the next step;
    `failed_compactions`: in a row. The tool messages at the indices `cleared` are shown without their output, the
    messages at the indices `withheld` without their PDFs (see `shown.py`).
    """

    agent: str
    previous_agent: str = ""
    model: str
    messages: tuple[ChatMessage, ...] = ()
    turn: int = 0
    usage: Usage = Usage()
    cost_microusd: int = 0
    tool_calls: tuple[ToolCallSummary, ...] = ()
    read_digests: Annotated[dict[str, str], Field(default_factory=dict)]
    cwd: str = ""  # where commands run, if they have left the folder that the task begins in
    changes: str | None = None
    open_turn: tuple[Answered, ...] = ()
    approved_in: tuple[str, ...] = ()
    background: tuple[Background, ...] = ()
    budget: Budget = Budget()
    outcome: Outcome | None = None
    compaction: Compaction | None = None
    due: Due | None = None
    failed_compactions: int = 0
    cleared: tuple[int, ...] = ()
    withheld: tuple[int, ...] = ()
    counted: Counted | None = None
    circling: str = ""  # the tool that the model calls again and again: its next turn is a closing one
    waits_at_microusd: int | None = None  # the trace's cap, which somebody must raise before the next call
    waits_for_tenant: bool = False  # that cap is the tenant's
    cassette: str | None = None  # blob of the newest piece of what is recorded of this task
    plan_file: str = ""  # of an agent that plans: the path of the one file that it may write
    waypoints: tuple[str, ...] = ()  # to the goal, from which the agent may depart
    given_plan: Plan | None = None  # the living plan that it began with
    undone: str | None = None  # checkpoint of what a revert took away; nothing was said since
