"""The seam to a model: messages and tools in, a stream of events out, ended by exactly one `Completed` or `Failed`."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal, Protocol

from pydantic import BaseModel, ConfigDict, Field

from envelope.budget import Usage


class ToolCall(BaseModel):
    """What a model asks for: `arguments` is its text as it came, `input` that text parsed (None if it is no object).

    `repaired`: the text was broken JSON, and `input` is what was meant (see `arguments.py`). `id` is unique within its
    reply; `provider_id` is the provider's own where that is another (Gemini keeps a signature in it, of any length).
    """

    model_config = ConfigDict(frozen=True)

    id: str
    name: str
    arguments: str
    input: dict[str, Any] | None = None
    repaired: bool = False
    provider_id: str = ""


class ProviderItems(BaseModel):
    """A reply as its provider sent it, for that provider alone: what `items` are is the wire format's matter.

    They go back unchanged and in their order to the same `model` (its name with its provider before it). Providers sign
    what a model thought together with all that stood before it, so nothing in here is ever edited. Another model gets
    the message's own text and calls instead.
    """

    model_config = ConfigDict(frozen=True)

    model: str
    items: tuple[dict[str, Any], ...]


FinishReason = Literal[
    "end_turn",
    "tool_use",
    "max_tokens",
    "pause",
    "cancelled",
    "error",
    "permission_denied",
    "content_filter",
    "refusal",
]


class Finish(BaseModel):
    """How a turn ended, in our words, and when."""

    model_config = ConfigDict(frozen=True)

    reason: FinishReason
    at_ms: int


class Retry(BaseModel):
    """A try of a model call that failed, before the one that made the message."""

    model_config = ConfigDict(frozen=True)

    attempt: int
    wait_ms: int
    reason: str
    at_ms: int


Kind = Literal["image", "pdf"]


class FilePart(BaseModel):
    """A file that goes with the text of a message: its content is the blob `blob`.

    `data` is that content in base64: there on the way to a provider alone, and never stored.
    """

    model_config = ConfigDict(frozen=True)

    blob: str
    media_type: str
    name: str = ""
    size_bytes: int = 0
    data: str = Field(default="", exclude=True, repr=False)

    @property
    def kind(self) -> Kind:
        return "pdf" if self.media_type == "application/pdf" else "image"


class ChatMessage(BaseModel):
    """One message of a history. A `tool` message answers the call `tool_call_id`.

    `synthetic` messages were put there by Muster and not by a person. `finish` is a reply's, or stands on the last
    answer of a turn that was ended in its middle; `agent` and `retries` are a reply's, `metadata` is a tool's (see
    `ToolResult`). None of these is ever shown to a model.
    """

    model_config = ConfigDict(frozen=True)

    role: Literal["system", "user", "assistant", "tool"]
    content: str = ""
    reasoning: str = ""
    provider_items: ProviderItems | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str = ""
    name: str = ""
    is_error: bool = False
    files: tuple[FilePart, ...] = ()
    synthetic: bool = False
    finish: Finish | None = None
    agent: str = ""  # who said it
    retries: tuple[Retry, ...] = ()
    metadata: dict[str, Any] = Field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool as the model sees it; `parameters` is a JSON Schema of type object."""

    name: str
    description: str
    parameters: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Text:
    text: str


@dataclass(frozen=True, slots=True)
class Reasoning:
    text: str


@dataclass(frozen=True, slots=True)
class HiddenReasoning:
    """Thoughts that the provider sends sealed, or not at all: they are billed, and nobody reads them.

    `size_bytes`: of what came in their place; 0 where a thought only began.
    """

    size_bytes: int


@dataclass(frozen=True, slots=True)
class CallStarted:
    id: str
    name: str


@dataclass(frozen=True, slots=True)
class CallDelta:
    id: str
    text: str


@dataclass(frozen=True, slots=True)
class Completed:
    """The reply is whole. `finish_reason` is in OpenAI's vocabulary (stop, tool_calls, length, content_filter), or
    `refusal` where the model says no, and `pause` where it wants to be asked again, with its reply as the last message.

    `cost_microusd`: what the provider itself says that the call costs. `service_rank`: the `service_tier` that it says
    it has served the call with, which need not be the one that was asked for. `remarks`: what people should know of it.
    """

    text: str
    reasoning: str
    tool_calls: tuple[ToolCall, ...]
    finish_reason: str
    usage: Usage
    provider_items: ProviderItems | None = None
    cost_microusd: int | None = None
    service_rank: str = ""
    remarks: tuple[str, ...] = ()
    retries: tuple[Retry, ...] = field(default=(), compare=False)  # how it came is not what it says


class Failure(StrEnum):
    AUTH = "auth"  # 401, 403: the key
    UNKNOWN_MODEL = "unknown_model"  # 404, or a name that no provider has
    BAD_REQUEST = "bad_request"  # 400, 422
    OVERFLOW = "overflow"  # the window is full
    RATE_LIMIT = "rate_limit"
    UNAVAILABLE = "unavailable"  # 5xx, connection refused, cut stream, stall
    CONTENT_FILTER = "content_filter"


@dataclass(frozen=True, slots=True)
class Failed:
    failure: Failure
    message: str  # one sentence, without secrets
    headers: Mapping[str, str] = field(default_factory=dict[str, str])  # those that say when to come again


# May the model call tools, or must it answer in words? Tools are offered in both cases: they stand at the start of
# what a provider caches and signs.
ToolChoice = Literal["auto", "none"]

ModelEvent = Text | Reasoning | HiddenReasoning | CallStarted | CallDelta | Completed | Failed


class ChatModel(Protocol):
    @property
    def name(self) -> str:
        """As the provider's registry spells it: `openai/gpt-5`, `anthropic/claude-…`."""
        ...

    def stream(
        self, messages: Sequence[ChatMessage], tools: Sequence[ToolSpec], tool_choice: ToolChoice = "auto"
    ) -> AsyncGenerator[ModelEvent, None]:
        """One model call. Never raises for what a provider does: that is a `Failed`. Closing the generator cancels the
        request."""
        ...
