"""OpenAI's chat completions as the scripted server speaks them. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import cast

from .dialect_parts import Json, Users, arguments_of, call_id, finish_reason_of, pieces, text_of, usage_of
from .script import Conversation, Reply


def read_openai(body: Json) -> Conversation:
    """`turn` counts the model's own messages, so that a script can say which reply comes next."""
    messages = cast(Sequence[Json], body.get("messages") or [])
    texts: dict[str, list[str]] = {"system": [], "user": [], "assistant": [], "tool": []}
    users = Users()
    for message in messages:
        role, text = str(message.get("role")), text_of(message.get("content"))
        texts.setdefault(role, []).append(text)
        if role == "assistant":
            users.model_speaks()
        elif role == "user":
            users.say(text)
    return Conversation(
        model=str(body.get("model", "")),
        system="\n".join(texts["system"]),
        prompt=users.prompt,
        opening=users.opening,
        user=users.latest,
        results=tuple(texts["tool"]),
        turn=len(texts["assistant"]) + 1,
        chars=sum(len(text) for group in texts.values() for text in group),
    )


def stream_openai(reply: Reply, now: Conversation, body: Json) -> Iterator[bytes]:
    """The reply as server-sent events; the usage in one more, where the request asks for it."""
    yield _chunk(now, {"role": "assistant", "content": ""})
    for piece in pieces(reply.reasoning, reply):
        yield _chunk(now, {"reasoning_content": piece})
    for piece in pieces(reply.text, reply):
        yield _chunk(now, {"content": piece})
    for index, call in enumerate(_calls_openai(reply, now)):
        head = call | {"index": index, "function": call["function"] | {"arguments": ""}}
        yield _chunk(now, {"tool_calls": [head]})
        for piece in pieces(call["function"]["arguments"], reply):
            yield _chunk(now, {"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
    yield _chunk(now, {}, finish_reason=finish_reason_of(reply))
    if cast(Json, body.get("stream_options") or {}).get("include_usage"):
        yield _event(_envelope(now, "chat.completion.chunk") | {"choices": [], "usage": _usage_openai(reply, now)})
    yield b"data: [DONE]\n\n"


def whole_openai(reply: Reply, now: Conversation) -> Json:
    message: Json = {"role": "assistant", "content": reply.text or None}
    if reply.tool_calls:
        message["tool_calls"] = _calls_openai(reply, now)
    choice = {"index": 0, "message": message, "finish_reason": finish_reason_of(reply)}
    return _envelope(now, "chat.completion") | {"choices": [choice], "usage": _usage_openai(reply, now)}


def error_openai(status: int, message: str, code: str) -> Json:
    return {"error": {"message": message, "type": "scripted_error", "param": None, "code": code or str(status)}}


def _calls_openai(reply: Reply, now: Conversation) -> list[Json]:
    return [
        {
            "id": call.id or call_id(now, index),
            "type": "function",
            "function": {"name": call.name, "arguments": arguments_of(call)},
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


def _envelope(now: Conversation, kind: str) -> Json:
    return {"id": f"scripted-{now.turn}", "object": kind, "created": 0, "model": now.model}


def _chunk(now: Conversation, delta: Json, finish_reason: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
    return _event(_envelope(now, "chat.completion.chunk") | {"choices": [choice]})


def _event(data: Json) -> bytes:
    return b"data: " + json.dumps(data).encode() + b"\n\n"
