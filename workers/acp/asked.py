"""What a program asks a model, in either of the two formats that nearly all of them speak, as our messages. Pure.

Settings of the call (temperature, limits, forced tools, forms of answers) are not taken over: which model answers, and
how, is the task's.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from ..duck import is_light
from ..llm.arguments import parsed
from ..llm.base import ChatMessage, ToolCall, ToolSpec

Json = dict[str, Any]

# In one request. A session of days has a tenth of them; half a million take seconds, and a thousand bytes each.
MAX_VALUES = 100_000
MAX_TOOLS = 1000

NOTHING: Json = {"type": "object", "properties": {}}
# In the place of what no text can hold.
LEFT_OUT = "[a file that the relay does not carry]"


class BadQuestion(ValueError):
    """What is asked has not the form of its format."""


@dataclass(frozen=True, slots=True)
class Question:
    messages: tuple[ChatMessage, ...]
    tools: tuple[ToolSpec, ...]
    streams: bool


def read_question(path: str, body: str) -> Question:
    """`BadQuestion` for what is none."""
    if not is_light(body.encode("utf-8", "replace"), MAX_VALUES):
        raise BadQuestion(f"the request has more than {MAX_VALUES} values")
    try:
        asked = cast(Json, json.loads(body))
        messages, tools = READERS[path](asked)
        question = Question(tuple(messages), tuple(tools), asked.get("stream") is True)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as e:
        raise BadQuestion(f"the request is not understood: {type(e).__name__}: {str(e)[:200]}") from e
    if len(question.tools) > MAX_TOOLS:
        raise BadQuestion(f"the request has more than {MAX_TOOLS} tools")
    if not question.messages:
        raise BadQuestion("the request has no messages")
    return question


def _openai(asked: Json) -> tuple[Iterator[ChatMessage], Iterator[ToolSpec]]:
    functions = (tool["function"] for tool in _rows(asked.get("tools")))
    return map(_openai_message, _rows(asked["messages"])), (_tool(each, "parameters") for each in functions)


def _openai_message(message: Json) -> ChatMessage:
    role, content = message["role"], _text(message.get("content"))
    match role:
        case "system" | "developer":
            return ChatMessage(role="system", content=content)
        case "tool":
            return ChatMessage(role="tool", content=content, tool_call_id=message["tool_call_id"])
        case "assistant":
            calls = ((call["id"], call["function"]) for call in _rows(message.get("tool_calls")))
            return _said(content, [_call(key, each["name"], each.get("arguments") or "{}") for key, each in calls])
        case "user":
            return ChatMessage(role="user", content=content)
        case _:
            raise ValueError(f"a message of {role!r}")


def _anthropic(asked: Json) -> tuple[Iterator[ChatMessage], Iterator[ToolSpec]]:
    return _anthropic_messages(asked), (_tool(each, "input_schema") for each in _rows(asked.get("tools")))


def _anthropic_messages(asked: Json) -> Iterator[ChatMessage]:
    if system := _text(asked.get("system")):
        yield ChatMessage(role="system", content=system)
    for message in _rows(asked["messages"]):
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else _rows(content)
        if message["role"] == "assistant":
            calls = [_call(b["id"], b["name"], json.dumps(b["input"])) for b in blocks if b["type"] == "tool_use"]
            yield _said(_text([b for b in blocks if b["type"] == "text"]), calls)
            continue
        results = [b for b in blocks if b["type"] == "tool_result"]
        for each in results:
            told, is_error = _text(each.get("content")), each.get("is_error") is True
            yield ChatMessage(role="tool", content=told, tool_call_id=each["tool_use_id"], is_error=is_error)
        if words := _text([b for b in blocks if b["type"] != "tool_result"]):
            yield ChatMessage(role="user", content=words)


READERS: Mapping[str, Callable[[Json], tuple[Iterator[ChatMessage], Iterator[ToolSpec]]]] = {
    "/v1/chat/completions": _openai,
    "/v1/messages": _anthropic,
}


def _tool(written: Json, schema: str) -> ToolSpec:
    if not isinstance(written["name"], str):
        raise TypeError("a tool without a name")
    parameters = written.get(schema)
    fitting = cast(Json, parameters) if isinstance(parameters, dict) else NOTHING
    return ToolSpec(written["name"], str(written.get("description") or ""), fitting)


def _call(call_id: str, name: str, arguments: str) -> ToolCall:
    return ToolCall(id=call_id, name=name, arguments=arguments, input=parsed(arguments))


def _said(content: str, calls: Sequence[ToolCall]) -> ChatMessage:
    return ChatMessage(role="assistant", content=content, tool_calls=tuple(calls))


def _text(content: object) -> str:
    """A content is text, nothing, or a list of parts."""
    if content is None or isinstance(content, str):
        return content or ""
    return "\n".join(part["text"] if part.get("type") == "text" else LEFT_OUT for part in _rows(content))


def _rows(content: object) -> list[Json]:
    if not isinstance(content, list | None):
        raise TypeError("no list where one belongs")
    return cast(list[Json], content or [])
