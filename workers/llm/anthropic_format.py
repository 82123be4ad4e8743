"""Our messages and tools in Anthropic's format, with its cache marks. Pure.

What stands before a thought may never change again: its signature covers system, tools and all earlier messages, and
the newest models refuse a request that fails this check (platform.claude.com/docs, "Preserved thinking", 2026-11). So
replies of the same model go back as they came, and everything else is made from values that only grow.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from .base import ChatMessage, FilePart, ToolCall, ToolChoice, ToolSpec
from .openai_format import MARK, MARKED_MESSAGES, sayable
from .wire import Json

MARKABLE = frozenset({"text", "tool_use", "tool_result", "image", "document"})
EMPTY = "(empty)"  # the format refuses text without a character
_NO_ID = re.compile(r"[^a-zA-Z0-9_-]")


def system_for(messages: Sequence[ChatMessage]) -> list[Json]:
    blocks = [_text(message.content) for message in messages if message.role == "system" and message.content.strip()]
    return [*blocks[:-1], blocks[-1] | MARK] if blocks else []


def tools_for(messages: Sequence[ChatMessage], tools: Sequence[ToolSpec], choice: ToolChoice) -> Json:
    """A history with calls must come with tools: where none are offered, those that were called, and a ban."""
    if tools:
        described = [
            {"name": tool.name, "description": tool.description, "input_schema": tool.parameters} for tool in tools
        ]
        offered: Json = {"tools": [*described[:-1], described[-1] | MARK]}
        return offered | ({"tool_choice": {"type": "none"}} if choice == "none" else {})
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
    ids: dict[str, str] = {}  # of the calls so far, as they are sent
    for message in messages:
        if message.role == "system":
            continue
        role = "assistant" if message.role == "assistant" else "user"
        if not sent or sent[-1]["role"] != role:
            sent.append({"role": role, "content": []})
        sent[-1]["content"] += _blocks(message, model, ids)
    for message in sent[-MARKED_MESSAGES:]:
        message["content"] = _marked(message["content"])
    return sent


def reply_blocks(text: str, calls: Sequence[ToolCall]) -> list[Json]:
    """A reply of which nothing is known but its words and calls."""
    said = [_text(text)] if text.strip() or not calls else []
    return [*said, *map(_call, calls)]


def _blocks(message: ChatMessage, model: str, ids: dict[str, str]) -> Iterator[Json]:
    match message.role:
        case "tool":
            yield {
                "type": "tool_result",
                "tool_use_id": ids.get(message.tool_call_id) or _id(message.tool_call_id),
                "content": [_text(message.content), *map(_file, message.files)] if message.files else message.content,
                "is_error": message.is_error,
            }
        case "assistant" if message.provider_items and message.provider_items.model == model:
            ids |= {call.id: call.provider_id or call.id for call in message.tool_calls}
            yield from message.provider_items.items
        case "assistant":
            ids |= {call.id: _id(call.id) for call in message.tool_calls}
            yield from reply_blocks(message.content, message.tool_calls)
        case _:
            yield from map(_file, message.files)
            yield _text(message.content)


def _file(file: FilePart) -> Json:
    source = {"type": "base64", "media_type": file.media_type, "data": file.data}
    return {"type": "image" if file.kind == "image" else "document", "source": source}


def _call(call: ToolCall) -> Json:
    # Arguments that are no object cannot be said here; the answer to the call quotes them.
    return {"type": "tool_use", "id": _id(call.id), "name": sayable(call.name), "input": call.input or {}}


def _text(text: str) -> Json:
    return {"type": "text", "text": text if text.strip() else EMPTY}


def _marked(blocks: Sequence[Json]) -> list[Json]:
    """The last block gets the mark, if it is of a kind that takes one; thoughts must stay as they are."""
    return [*blocks[:-1], blocks[-1] | MARK] if blocks[-1].get("type") in MARKABLE else list(blocks)


def _id(call_id: str) -> str:
    """Ids of another provider's calls may have other letters; a call and its answer are changed alike."""
    return _NO_ID.sub("_", call_id) or "call"
