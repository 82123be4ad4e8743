"""Our messages and tools in the OpenAI chat format, which litellm takes for every provider. Pure."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from .base import ChatMessage, FilePart, ToolCall, ToolSpec
from .openai_items import item_of
from .wire import NO_RULES, ChatRules, Json

MAX_NAME_CHARS = 64
# These think before they answer: they take no temperature, and their limit counts thoughts and has another name.
_THINKS = re.compile(r"(.*/)?(o\d|gpt-(?!5-chat)([5-9]|\d\d))")
# Moonshot's own models that think have a temperature of their own, and refuse another.
_OWN_TEMPERATURE = re.compile(r"(.*/)?kimi-(k2\.[5-9]|k[3-9]|.*thinking)")
_NO_NAME = re.compile(r"[^a-zA-Z0-9_-]")
# What stands before a mark is kept by Anthropic's cache, also behind OpenRouter, Bedrock and Vertex
# (openrouter.ai/docs, "Prompt Caching", 2026-11). Four are allowed: tools, system, two messages. A mark is no part of
# what is signed, and may move from one request to the next.
MARK: Json = {"cache_control": {"type": "ephemeral"}}
MARKED_MESSAGES = 2
NEVER = "none"
_MISTRAL_ID = re.compile(r"[a-zA-Z0-9]{9}")


def thinks(model: str) -> bool:
    """Is it one of OpenAI's that think before they answer?

    >>> [thinks(name) for name in ("gpt-5.5", "openai/o3-mini", "gpt-10", "gpt-4.1", "gpt-oss-120b")]
    [True, True, True, False, False]
    """
    return _THINKS.match(model) is not None


def takes_temperature(model: str) -> bool:
    """
    >>> [takes_temperature(name) for name in ("gpt-4.1", "o3", "kimi-k2.6", "moonshotai/kimi-k2-0905-preview")]
    [True, False, False, True]
    """
    return not thinks(model) and _OWN_TEMPERATURE.match(model) is None


def messages_for(
    messages: Sequence[ChatMessage], model: str = "", rules: ChatRules = NO_RULES, *, reads_keys: bool = True
) -> list[Json]:
    """`model` gets its own replies with what they held beside words and calls; `reads_keys`: thoughts too, as text."""
    sent: list[Json] = []
    seen: list[Json] = []  # by tools: the format has no place for it in their answers
    ids: dict[str, str] = {}  # of the calls so far, as they are sent
    for message in messages:
        if seen and message.role != "tool":
            sent.append({"role": "user", "content": seen})
            seen = []
        if rules.is_mistral and message.role == "user" and sent and sent[-1]["role"] == "tool":
            sent.append({"role": "assistant", "content": "Understood."})
        wire = _message(message)
        if message.role == "assistant":
            _lay_over(wire, message, model, rules, reads_keys=reads_keys)
            ids |= _ids(message, wire, rules)
        elif message.role == "tool":
            wire["tool_call_id"] = ids.get(message.tool_call_id, message.tool_call_id)
        elif rules.cache_marks and isinstance(wire["content"], str):
            wire["content"] = [_text(wire["content"])]
        sent.append(wire)
        if message.role == "tool" and message.files:
            seen += [_text(f"From {sayable(message.name)}, call {message.tool_call_id}:"), *map(_file, message.files)]
    if seen:
        sent.append({"role": "user", "content": seen})
    return _marked(sent) if rules.cache_marks else sent


def tools_for(tools: Sequence[ToolSpec]) -> list[Json]:
    return [
        {
            "type": "function",
            "function": {"name": tool.name, "description": tool.description, "parameters": tool.parameters},
        }
        for tool in tools
    ]


def _message(message: ChatMessage) -> Json:
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


def _lay_over(wire: Json, message: ChatMessage, model: str, rules: ChatRules, *, reads_keys: bool) -> None:
    """What the reply held beside words and calls; see `openai_items`."""
    item = item_of(message, model)
    wire |= item.get("message", {})
    keys = [rules.reasoning_key] if rules.reasoning_key else item.get("reasoning_keys", [])
    is_own = "reasoning_keys" in item
    if reads_keys and NEVER not in keys and (is_own or (rules.always_reasoning and message.tool_calls)):
        wire |= dict.fromkeys(keys, message.reasoning if is_own else "")
    for call in wire.get("tool_calls", ()):
        call |= item.get("calls", {}).get(call["id"], {})


def _ids(message: ChatMessage, wire: Json, rules: ChatRules) -> dict[str, str]:
    """Our ids of the message's calls → those that are sent."""
    ids: dict[str, str] = {}
    for ours, call in zip(message.tool_calls, wire.get("tool_calls", ()), strict=True):
        if rules.is_mistral and not _MISTRAL_ID.fullmatch(call["id"]):
            call["id"] = hashlib.sha256(call["id"].encode(errors="replace")).hexdigest()[:9]
        ids[ours.id] = call["id"]
    return ids


def _marked(sent: list[Json]) -> list[Json]:
    """The system text, and the last messages of the two last turns that are not the model's own."""
    ends = [i for i, one in enumerate(sent) if one["role"] in ("user", "tool") and _ends_turn(sent, i)]
    system = [i for i, one in enumerate(sent) if one["role"] == "system"]
    for index in (*system[-1:], *ends[-MARKED_MESSAGES:]):
        one = sent[index]
        if one["role"] == "tool":  # its mark stands beside its content
            sent[index] = one | MARK
        elif one["content"][-1].get("text") != "":  # a text without a character takes none
            one["content"] = [*one["content"][:-1], one["content"][-1] | MARK]
    return sent


def _ends_turn(sent: Sequence[Mapping[str, Any]], index: int) -> bool:
    return index + 1 == len(sent) or sent[index + 1]["role"] == "assistant"


def _text(text: str) -> Json:
    return {"type": "text", "text": text}


def _file(file: FilePart) -> Json:
    url = f"data:{file.media_type};base64,{file.data}"
    if file.kind == "image":
        return {"type": "image_url", "image_url": {"url": url}}
    return {"type": "file", "file": {"filename": file.name or "file.pdf", "file_data": url}}


def _call(call: ToolCall) -> Json:
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
