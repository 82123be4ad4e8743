"""A cassette: every model call of a task, and what its tools answered, as JSON Lines. Pure, but for the model around.

A request repeats the one before it and adds to it, so a call holds only what is new: `kept` messages of the call
before, then `added`. Nothing is stored twice, and a cassette grows as its session does.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import asdict, dataclass
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter
from pydantic_core import from_json

from envelope.redaction import redact_value

from .base import (
    CallDelta,
    CallStarted,
    ChatMessage,
    ChatModel,
    Completed,
    Failed,
    FilePart,
    HiddenReasoning,
    ModelEvent,
    Reasoning,
    Text,
    ToolChoice,
    ToolSpec,
)

KINDS = {
    kind.__name__: TypeAdapter(kind)
    for kind in (Text, Reasoning, HiddenReasoning, CallStarted, CallDelta, Completed, Failed)
}
Fields = dict[str, Any]
# What stands in a message for people and programs alone.
UNSEEN = {"agent", "finish", "metadata", "retries", "synthetic"}


class Line(BaseModel):
    model_config = ConfigDict(frozen=True)


class Kept(Line):
    """Something that was found out once, outside of the session: under which name, and what."""

    kind: Literal["kept"] = "kept"
    name: str
    value: Any


class Call(Line):
    """One try of a model call. `tools` is None when they are those of the call before."""

    kind: Literal["call"] = "call"
    model: str
    kept: int
    added: tuple[Fields, ...]
    tools: tuple[Fields, ...] | None = None
    tool_choice: ToolChoice = "auto"
    reply: tuple[tuple[str, Fields], ...]


class ToolAnswer(Line):
    call_id: str
    name: str
    content: str
    is_error: bool = False
    files: tuple[FilePart, ...] = ()


class Answers(Line):
    """What the calls of one turn came to, in their order."""

    kind: Literal["answers"] = "answers"
    answers: tuple[ToolAnswer, ...]


class Offered(Line):
    """The tools of others from here on, and no longer those of the last such line."""

    kind: Literal["offered"] = "offered"
    tools: tuple[Fields, ...]


class Heard(Line):
    kind: Literal["heard"] = "heard"
    prompts: tuple[str, ...]


class HeardOfChildren(Line):
    """What was told of subagents in the background that had ended, by their tasks."""

    kind: Literal["heard_of_children"] = "heard_of_children"
    words: dict[str, str]


class Exhausted(Line):
    """The money was spent when the next turn would have begun; the trace's, or the tenant's."""

    kind: Literal["exhausted"] = "exhausted"
    whose: str = "trace"


class Ended(Line):
    kind: Literal["ended"] = "ended"
    text: str
    error: str = ""


Entry = Kept | Call | Answers | Offered | Heard | HeardOfChildren | Exhausted | Ended
_ENTRY: TypeAdapter[Entry] = TypeAdapter(Annotated[Entry, Field(discriminator="kind")])


@dataclass(frozen=True, slots=True)
class Request:
    """What a model was asked, as values that can be compared: without secrets, and without what is not said."""

    model: str
    messages: tuple[Fields, ...]
    tools: tuple[Fields, ...]
    tool_choice: ToolChoice = "auto"


def written(entry: Entry) -> str:
    """A line, without secrets."""
    return json.dumps(redact_value(entry.model_dump(mode="json")), ensure_ascii=False)


def read(line: bytes) -> Entry:
    """`ValueError` for what is no line of a cassette."""
    # `validate_json` would first make a tree of its own, which takes six times the memory and the time
    return _ENTRY.validate_python(from_json(line, cache_strings=False))


def request_of(
    model: str, messages: Sequence[ChatMessage], tools: Sequence[ToolSpec], tool_choice: ToolChoice = "auto"
) -> Request:
    dumped = [message.model_dump(mode="json", exclude_defaults=True, exclude=UNSEEN) for message in messages]
    asked = [redact_value(message) for message in dumped]
    return Request(model, tuple(asked), tuple(redact_value(asdict(tool)) for tool in tools), tool_choice)


def call_line(before: Request | None, now: Request, reply: Iterable[ModelEvent]) -> Call:
    """`before`: the request of the call before this one on the same cassette."""
    kept = _common(before.messages, now.messages) if before else 0
    tools = None if before and before.tools == now.tools else now.tools
    return Call(
        model=now.model,
        kept=kept,
        added=now.messages[kept:],
        tools=tools,
        tool_choice=now.tool_choice,
        reply=tuple(_joined(reply)),
    )


def request_after(before: Request, call: Call) -> Request:
    """The whole request of a call; `before`: that of the call before it on the same cassette."""
    tools = before.tools if call.tools is None else call.tools
    messages = (*before.messages[: call.kept], *call.added)
    return Request(call.model, messages, tools, call.tool_choice)


def reply_of(call: Call) -> tuple[ModelEvent, ...]:
    return tuple(KINDS[name].validate_python(fields) for name, fields in call.reply)


@dataclass(frozen=True, slots=True)
class Recorded:
    """A model whose calls are told to `note` once they are over; one that was cancelled had no reply."""

    model: ChatModel
    note: Callable[[Request, Sequence[ModelEvent]], None]

    @property
    def name(self) -> str:
        return self.model.name

    async def stream(
        self, messages: Sequence[ChatMessage], tools: Sequence[ToolSpec], tool_choice: ToolChoice = "auto"
    ) -> AsyncGenerator[ModelEvent, None]:
        request, reply = request_of(self.name, messages, tools, tool_choice), list[ModelEvent]()
        async with aclosing(self.model.stream(messages, tools, tool_choice)) as events:
            async for event in events:
                reply.append(event)
                if isinstance(event, Completed | Failed):
                    self.note(request, reply)
                yield event


def _common(before: Sequence[Mapping[str, Any]], now: Sequence[Mapping[str, Any]]) -> int:
    pairs = enumerate(zip(before, now, strict=False))
    return next((index for index, (old, new) in pairs if old != new), min(len(before), len(now)))


def _joined(reply: Iterable[ModelEvent]) -> Iterable[tuple[str, Fields]]:
    """The reply with deltas that follow each other as one: thousands of tokens are a few lines."""
    last: ModelEvent | None = None
    for event in reply:
        match last, event:
            case Text(before), Text(after):
                last = Text(before + after)
            case Reasoning(before), Reasoning(after):
                last = Reasoning(before + after)
            case CallDelta(call_id, before), CallDelta(same, after) if call_id == same:
                last = CallDelta(call_id, before + after)
            case _:
                if last is not None:
                    yield _named(last)
                last = event
    if last is not None:
        yield _named(last)


def _named(event: ModelEvent) -> tuple[str, Fields]:
    name = type(event).__name__
    return name, KINDS[name].dump_python(event, mode="json")  # pyright: ignore[reportArgumentType]
