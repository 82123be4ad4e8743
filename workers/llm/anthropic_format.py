"""Our messages and tools in Anthropic's format, with its cache marks. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from .base import ChatMessage, FilePart, ToolCall, ToolSpec
from .openai_format import sayable

Json = dict[str, Any]

# What stands before a mark is kept by the provider's cache. Four marks are allowed: tools, system, two messages.
MARK: Json = {"cache_control": {"type": "ephemeral"}}
MARKED_MESSAGES = 2
EMPTY = "(empty)"  # the format refuses text without a character
_NO_ID = re.compile(r"[^a-zA-Z0-9_-]")


def system_for(messages: Sequence[ChatMessage]) -> list[Json]:
    blocks = [_text(message.content) for message in messages if message.role == "system" and message.content.strip()]
    return [*blocks[:-1], blocks[-1] | MARK] if blocks else []


def tools_for(messages: Sequence[ChatMessage], tools: Sequence[ToolSpec]) -> Json:
    """A history with calls must come with tools: where none are offered, those that were called, and a ban."""
    if tools:
        described = [
            {"name": tool.name, "description": tool.description, "input_schema": tool.parameters} for tool in tools
        ]
        return {"tools": [*described[:-1], described[-1] | MARK]}
    called = sorted({call.name for message in messages for call in message.tool_calls})
    if not called:
        return {}
    return {
        "tools": [{"name": sayable(name), "input_schema": {"type": "object"}} for name in called],
        "tool_choice": {"type": "none"},
    }


def messages_for(messages: Sequence[ChatMessage], model: str) -> list[Json]:
    """User and assistant take turns: neighbours of one side become one message. `model` reads its own thoughts only."""
    sent: list[Json] = []
    for message in messages:
        if message.role == "system":
            continue
        role = "assistant" if message.role == "assistant" else "user"
        if not sent or sent[-1]["role"] != role:
            sent.append({"role": role, "content": []})
        sent[-1]["content"] += _blocks(message, model)
    for message in sent[-MARKED_MESSAGES:]:
        message["content"] = _marked(message["content"])
    return sent


def _blocks(message: ChatMessage, model: str) -> Iterator[Json]:
    match message.role:
        case "tool":
            yield {
                "type": "tool_result",
                "tool_use_id": _id(message.tool_call_id),
                "content": [_text(message.content), *map(_file, message.files)] if message.files else message.content,
                "is_error": message.is_error,
            }
        case "assistant":
            yield from _thoughts(message, model)
            if message.content.strip() or not message.tool_calls:
                yield _text(message.content)
            yield from (_call(call) for call in message.tool_calls)
        case _:
            yield from map(_file, message.files)
            yield _text(message.content)


def _file(file: FilePart) -> Json:
    source = {"type": "base64", "media_type": file.media_type, "data": file.data}
    return {"type": "image" if file.kind == "image" else "document", "source": source}


def _thoughts(message: ChatMessage, model: str) -> Iterator[Json]:
    for thought in message.thoughts:
        if thought.model == model and thought.sealed:
            yield {"type": "redacted_thinking", "data": thought.sealed}
        elif thought.model == model:
            yield {"type": "thinking", "thinking": thought.text, "signature": thought.signature}


def _call(call: ToolCall) -> Json:
    # Arguments that are no object cannot be said here; the answer to the call quotes them.
    return {"type": "tool_use", "id": _id(call.id), "name": sayable(call.name), "input": call.input or {}}


def _text(text: str) -> Json:
    return {"type": "text", "text": text if text.strip() else EMPTY}


def _marked(blocks: Sequence[Json]) -> list[Json]:
    """The last block gets the mark; thoughts must stay as they are."""
    return [*blocks[:-1], blocks[-1] | MARK] if not blocks[-1]["type"].endswith("thinking") else list(blocks)


def _id(call_id: str) -> str:
    """Ids of another provider's calls may have other letters; a call and its answer are changed alike."""
    return _NO_ID.sub("_", call_id) or "call"
