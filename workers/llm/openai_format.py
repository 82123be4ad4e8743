"""Our messages and tools in the OpenAI chat format, which litellm takes for every provider. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from .base import ChatMessage, FilePart, ToolCall, ToolSpec

MAX_NAME_CHARS = 64
# These think before they answer: they take no temperature, and their limit counts thoughts and has another name.
_THINKS = re.compile(r"(.*/)?(o\d|gpt-(?!5-chat)([5-9]|\d\d))")
_GPT = re.compile(r"(?:.*/)?gpt-(\d+)(?:\.(\d+))?")
_NO_NAME = re.compile(r"[^a-zA-Z0-9_-]")


def thinks(model: str) -> bool:
    """Is it one of OpenAI's that think before they answer?

    >>> [thinks(name) for name in ("gpt-5.5", "openai/o3-mini", "gpt-10", "gpt-4.1", "gpt-oss-120b")]
    [True, True, True, False, False]
    """
    return _THINKS.match(model) is not None


def openai_effort(model: str, effort: str) -> str:
    """As the model knows it: `max` is there from gpt-5.6 on, and `xhigh` before it (developers.openai.com, "Reasoning
    models", 2026-11); others, and other servers' models, know nothing beyond `high`.

    >>> [openai_effort(name, "max") for name in ("gpt-6-sol", "gpt-5.6", "gpt-5.2", "gpt-5", "o3")]
    ['max', 'max', 'xhigh', 'high', 'high']
    """
    if effort != "max":
        return effort
    found = _GPT.match(model)
    if found is None:
        return "high"
    version = (int(found[1]), int(found[2] or 0))
    return "max" if version >= (5, 6) else "xhigh" if version >= (5, 2) else "high"


def messages_for(messages: Sequence[ChatMessage], *, reasoning_key: str = "") -> list[dict[str, Any]]:
    """`reasoning_key`: under what name the provider wants to see its reasoning again; empty when it does not."""
    sent: list[dict[str, Any]] = []
    seen: list[dict[str, Any]] = []  # by tools: the format has no place for it in their answers
    for message in messages:
        if seen and message.role != "tool":
            sent.append({"role": "user", "content": seen})
            seen = []
        wire = _message(message)
        if reasoning_key and message.reasoning:
            wire[reasoning_key] = message.reasoning
        sent.append(wire)
        if message.role == "tool" and message.files:
            seen += [_text(f"From {sayable(message.name)}, call {message.tool_call_id}:"), *map(_file, message.files)]
    return [*sent, {"role": "user", "content": seen}] if seen else sent


def tools_for(tools: Sequence[ToolSpec]) -> list[dict[str, Any]]:
    return [
        {
            "type": "function",
            "function": {"name": tool.name, "description": tool.description, "parameters": tool.parameters},
        }
        for tool in tools
    ]


def _message(message: ChatMessage) -> dict[str, Any]:
    match message.role:
        case "tool":
            return {"role": "tool", "tool_call_id": message.tool_call_id, "content": message.content}
        case "assistant" if message.tool_calls:
            calls = [_call(call) for call in message.tool_calls]
            return {"role": "assistant", "content": message.content or None, "tool_calls": calls}
        case "user" if message.files:
            return {"role": "user", "content": [_text(message.content), *map(_file, message.files)]}
        case role:
            return {"role": role, "content": message.content}


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _file(file: FilePart) -> dict[str, Any]:
    url = f"data:{file.media_type};base64,{file.data}"
    if file.kind == "image":
        return {"type": "image_url", "image_url": {"url": url}}
    return {"type": "file", "file": {"filename": file.name or "file.pdf", "file_data": url}}


def _call(call: ToolCall) -> dict[str, Any]:
    return {"id": call.id, "type": "function", "function": {"name": sayable(call.name), "arguments": _arguments(call)}}


@lru_cache(256)  # the tools' names, again with every call of a history
def sayable(name: str) -> str:
    """A name that the model made up may have letters that providers refuse, or none; the call's answer quotes it.

    >>> sayable("functions.read"), sayable("")
    ('functions_read', 'unknown')
    """
    return _NO_NAME.sub("_", name)[:MAX_NAME_CHARS] or "unknown"


def _arguments(call: ToolCall) -> str:
    """Always JSON: providers refuse a whole history for one call that is none. Its answer quotes what was written."""
    if call.repaired:
        return json.dumps(call.input)
    return "{}" if call.input is None else call.arguments or "{}"
