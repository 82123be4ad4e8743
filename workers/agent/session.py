"""A session: all the state of an agent's work. It can be stored after any turn and finished in another process."""

from __future__ import annotations

from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field

from envelope.budget import Budget, Usage
from envelope.errors import ErrorCode
from envelope.messages import ToolCallSummary
from envelope.redaction import redact_known

from ..llm.base import ChatMessage
from .calls import Answered


class Outcome(BaseModel):
    """How the loop ended: `error` is None when the model gave its answer."""

    model_config = ConfigDict(frozen=True)

    text: str = ""
    structured: dict[str, Any] | None = None  # of a task that wants an answer of a certain form
    error: ErrorCode | None = None
    detail: str = ""
    hint: str = ""


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

    `open_turn`: the calls of the last message, while some of them wait for a subagent; they get their answers together,
    in their order. Empty when the turn is over. `messages` and `tool_calls` only ever grow at their end.
    """

    agent: str
    model: str
    messages: tuple[ChatMessage, ...] = ()
    turn: int = 0
    usage: Usage = Usage()
    cost_microusd: int = 0
    tool_calls: tuple[ToolCallSummary, ...] = ()
    read_digests: Annotated[dict[str, str], Field(default_factory=dict)]
    changes: str | None = None
    open_turn: tuple[Answered, ...] = ()
    budget: Budget = Budget()
    outcome: Outcome | None = None
