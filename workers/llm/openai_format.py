"""Our messages in the OpenAI chat format, and a reply put together from its deltas. Pure; knows no library."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from envelope.budget import Usage

from .base import CallDelta, CallStarted, ChatMessage, Completed, ModelEvent, Reasoning, Text, ToolCall, ToolSpec

# No tool takes more than a list of objects. What is much deeper overflows whoever walks through it.
MAX_DEPTH = 32


def messages_for(messages: Sequence[ChatMessage]) -> list[dict[str, Any]]:
    return [_message(message) for message in messages]


def tools_for(tools: Sequence[ToolSpec]) -> list[dict[str, Any]]:
    return [
        {
            "type": "function",
            "function": {"name": tool.name, "description": tool.description, "parameters": tool.parameters},
        }
        for tool in tools
    ]


def parsed(arguments: str) -> dict[str, Any] | None:
    """A call's arguments as an object; None when they are anything else. No arguments at all are an empty object.

    >>> parsed('{"a": 1}'), parsed(""), parsed('{"a": ')
    ({'a': 1}, {}, None)
    """
    try:
        value: object = json.loads(arguments or "{}")
    except (ValueError, RecursionError):
        return None
    return cast(dict[str, Any], value) if isinstance(value, dict) and _travels(cast(object, value)) else None


def mended(text: str) -> str:
    """Text that can be encoded: JSON lets a provider send half a surrogate pair, which is no character.

    >>> mended("a\ud800b") == "a\N{REPLACEMENT CHARACTER}b"
    True
    """
    return text if _is_text(text) else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _travels(value: object, room: int = MAX_DEPTH) -> bool:
    """Does it fit into messages and sessions? Not all JSON does."""
    match value:
        case str():
            return _is_text(value)
        case int():
            return -(2**63) <= value < 2**64
        case dict():
            inner = cast(dict[str, object], value)
            return room > 0 and all(_is_text(key) and _travels(part, room - 1) for key, part in inner.items())
        case list():
            return room > 0 and all(_travels(part, room - 1) for part in cast(list[object], value))
        case _:
            return True


@dataclass(slots=True)
class _PartialCall:
    id: str
    name: str
    arguments: list[str] = field(default_factory=list[str])


class Assembly:
    """Deltas in, events out; at the end the whole reply."""

    def __init__(self) -> None:
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._calls: list[_PartialCall] = []
        self._at: dict[int, _PartialCall] = {}  # the provider's index → the call that is under way there

    def add_text(self, text: str) -> Iterator[ModelEvent]:
        if text := mended(text):
            self._text.append(text)
            yield Text(text)

    def add_reasoning(self, text: str) -> Iterator[ModelEvent]:
        if text := mended(text):
            self._reasoning.append(text)
            yield Reasoning(text)

    def add_call(self, index: int, call_id: str, name: str, arguments: str) -> Iterator[ModelEvent]:
        """A piece of a call. Some providers number every call 0, so a new id at an old index is a new call, too."""
        call_id, name, arguments = map(mended, (call_id, name, arguments))
        call = self._at.get(index)
        if call is None or (call_id and call_id != call.id):
            # Some local servers send no ids; answers must find their calls all the same.
            call = _PartialCall(call_id or f"call_{uuid.uuid4().hex[:16]}", name)
            self._at[index] = call
            self._calls.append(call)
            yield CallStarted(call.id, name)
        if arguments:
            call.arguments.append(arguments)
            yield CallDelta(call.id, arguments)

    def completed(self, finish_reason: str, usage: Usage) -> Completed:
        calls = [(call, "".join(call.arguments)) for call in self._calls]
        return Completed(
            text="".join(self._text),
            reasoning="".join(self._reasoning),
            tool_calls=tuple(
                ToolCall(id=call.id, name=call.name, arguments=arguments, input=parsed(arguments))
                for call, arguments in calls
            ),
            finish_reason=finish_reason,
            usage=usage,
        )


def _message(message: ChatMessage) -> dict[str, Any]:
    match message.role:
        case "tool":
            return {"role": "tool", "tool_call_id": message.tool_call_id, "content": message.content}
        case "assistant" if message.tool_calls:
            calls = [_call(call) for call in message.tool_calls]
            return {"role": "assistant", "content": message.content or None, "tool_calls": calls}
        case role:
            return {"role": role, "content": message.content}


def _call(call: ToolCall) -> dict[str, Any]:
    # Arguments that are no JSON make some providers refuse the whole history; the answer to the call quotes them.
    arguments = "{}" if call.input is None else call.arguments or "{}"
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments}}
