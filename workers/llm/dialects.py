"""How model servers talk: a dialect reads a request and writes a reply. Pure.

One row per wire format; the Anthropic format gets the next one.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

from envelope.budget import Usage

from .script import Conversation, Reply, ScriptedCall

# Small enough that words and arguments are split in the middle, as real servers do.
DELTA_CHARS = 12
CHARS_PER_TOKEN = 4  # the rule of thumb for English and code

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Dialect:
    """`stream` yields the pieces in which a reply is sent; each piece is one write."""

    read: Callable[[Json], Conversation]
    stream: Callable[[Reply, Conversation, Json], Iterator[bytes]]
    whole: Callable[[Reply, Conversation], Json]
    error: Callable[[int, str, str], Json]


def usage_of(reply: Reply, now: Conversation) -> Usage:
    sent = len(reply.text) + sum(len(_arguments(call)) for call in reply.tool_calls)
    estimate = Usage(input_tokens=now.chars // CHARS_PER_TOKEN + 1, output_tokens=sent // CHARS_PER_TOKEN + 1)
    return reply.usage or estimate


def read_openai(body: Json) -> Conversation:
    messages = cast(Sequence[Json], body.get("messages") or [])
    texts: dict[str, list[str]] = {"system": [], "user": [], "assistant": [], "tool": []}
    for message in messages:
        texts.setdefault(str(message.get("role")), []).append(_text(message.get("content")))
    users = texts["user"] or [""]
    return Conversation(
        model=str(body.get("model", "")),
        system="\n".join(texts["system"]),
        prompt=users[0],
        user=users[-1],
        results=tuple(texts["tool"]),
        turn=len(texts["assistant"]) + 1,
        chars=sum(len(text) for group in texts.values() for text in group),
    )


def stream_openai(reply: Reply, now: Conversation, body: Json) -> Iterator[bytes]:
    yield _chunk(now, {"role": "assistant", "content": ""})
    for piece in _pieces(reply.reasoning):
        yield _chunk(now, {"reasoning_content": piece})
    for piece in _pieces(reply.text):
        yield _chunk(now, {"content": piece})
    for index, call in enumerate(_calls_openai(reply, now)):
        head = call | {"index": index, "function": call["function"] | {"arguments": ""}}
        yield _chunk(now, {"tool_calls": [head]})
        for piece in _pieces(call["function"]["arguments"]):
            yield _chunk(now, {"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
    yield _chunk(now, {}, finish_reason=_finish_reason(reply))
    if cast(Json, body.get("stream_options") or {}).get("include_usage"):
        yield _event(_envelope(now, "chat.completion.chunk") | {"choices": [], "usage": _usage_openai(reply, now)})
    yield b"data: [DONE]\n\n"


def whole_openai(reply: Reply, now: Conversation) -> Json:
    message: Json = {"role": "assistant", "content": reply.text or None}
    if reply.tool_calls:
        message["tool_calls"] = _calls_openai(reply, now)
    choice = {"index": 0, "message": message, "finish_reason": _finish_reason(reply)}
    return _envelope(now, "chat.completion") | {"choices": [choice], "usage": _usage_openai(reply, now)}


def error_openai(status: int, message: str, code: str) -> Json:
    return {"error": {"message": message, "type": "scripted_error", "param": None, "code": code or str(status)}}


DIALECTS: dict[str, Dialect] = {
    "/v1/chat/completions": Dialect(read_openai, stream_openai, whole_openai, error_openai),
}


def _arguments(call: ScriptedCall) -> str:
    return json.dumps(call.arguments) if call.raw_arguments is None else call.raw_arguments


def _calls_openai(reply: Reply, now: Conversation) -> list[Json]:
    return [
        # Ids differ within a conversation, and are the same when a turn is asked for again.
        {
            "id": f"call_{now.turn}_{index}",
            "type": "function",
            "function": {"name": call.name, "arguments": _arguments(call)},
        }
        for index, call in enumerate(reply.tool_calls)
    ]


def _usage_openai(reply: Reply, now: Conversation) -> Json:
    usage = usage_of(reply, now)
    return {
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.total_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
    }


def _finish_reason(reply: Reply) -> str:
    return reply.finish_reason or ("tool_calls" if reply.tool_calls else "stop")


def _envelope(now: Conversation, kind: str) -> Json:
    return {"id": f"scripted-{now.turn}", "object": kind, "created": 0, "model": now.model}


def _chunk(now: Conversation, delta: Json, finish_reason: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
    return _event(_envelope(now, "chat.completion.chunk") | {"choices": [choice]})


def _event(data: Json) -> bytes:
    return b"data: " + json.dumps(data).encode() + b"\n\n"


def _pieces(text: str) -> list[str]:
    return [text[start : start + DELTA_CHARS] for start in range(0, len(text), DELTA_CHARS)]


def _text(content: Any) -> str:
    """A message's content is text, nothing, or a list of parts."""
    if isinstance(content, list):
        return "".join(str(part.get("text", "")) for part in cast(list[Json], content))
    return content if isinstance(content, str) else ""
