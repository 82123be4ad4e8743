"""OpenAI's Responses API as the scripted server speaks it. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from .dialect_openai import error_openai
from .dialect_parts import Json, Users, arguments_of, call_id, finish_reason_of, pieces, text_of, usage_of
from .script import Conversation, Reply

_INCOMPLETE = {"length": "max_output_tokens", "content_filter": "content_filter"}
# What begins an item of the model's in a history: a new turn, unless the item before it was the model's, too.
_OF_MODEL = frozenset({"reasoning", "function_call"})


def read_responses(body: Json) -> Conversation:
    """Items of one reply stand behind each other: a turn is over where somebody else speaks."""
    said: Any = body.get("input") or ""
    items: Sequence[Json] = [{"role": "user", "content": said}] if isinstance(said, str) else said
    results = [text_of(item.get("output")) for item in items if item.get("type") == "function_call_output"]
    users = Users()
    turns, was_model = 0, False
    for item in items:
        is_model = item.get("type") in _OF_MODEL or item.get("role") == "assistant"
        if is_model and not was_model:
            turns += 1
            users.model_speaks()
        elif item.get("role") == "user":
            users.say(text_of(item.get("content")))
        was_model = is_model
    system = str(body.get("instructions") or "")
    words = [text_of(item.get("content")) for item in items]
    return Conversation(
        model=str(body.get("model", "")),
        system=system,
        prompt=users.prompt,
        opening=users.opening,
        user=users.latest,
        results=tuple(results),
        turn=turns + 1,
        chars=len(system) + sum(map(len, words)) + sum(map(len, results)),
    )


def stream_responses(reply: Reply, now: Conversation, body: Json) -> Iterator[bytes]:
    """The reply as server-sent events, item by item, in the provider's order."""
    whole = whole_responses(reply, now)
    begun: Json = whole | {"status": "in_progress", "output": [], "usage": None, "incomplete_details": None}
    yield _event("response.created", response=begun)
    for place, item in enumerate(whole["output"]):
        yield _event("response.output_item.added", output_index=place, item=_empty(item))
        at: Json = {"item_id": item["id"], "output_index": place}
        match item["type"]:
            case "reasoning":
                for piece in pieces(reply.reasoning, reply):
                    yield _event("response.reasoning_summary_text.delta", **at, summary_index=0, delta=piece)
            case "message":
                kind = "refusal" if finish_reason_of(reply) == "refusal" else "output_text"
                for piece in pieces(reply.text, reply):
                    yield _event(f"response.{kind}.delta", **at, content_index=0, delta=piece)
            case _:
                for piece in pieces(item["arguments"], reply):
                    yield _event("response.function_call_arguments.delta", **at, delta=piece)
        yield _event("response.output_item.done", output_index=place, item=item)
    yield _event(f"response.{whole['status']}", response=whole)


def whole_responses(reply: Reply, now: Conversation) -> Json:
    reason = _INCOMPLETE.get(finish_reason_of(reply))
    usage = usage_of(reply, now)
    return {
        "id": f"scripted-{now.turn}",
        "object": "response",
        "model": now.model,
        "status": "incomplete" if reason else "completed",
        "incomplete_details": {"reason": reason} if reason else None,
        "output": [item | {"id": f"item-{now.turn}-{place}"} for place, item in enumerate(_items(reply, now))],
        "usage": {
            "input_tokens": usage.input_tokens,
            "input_tokens_details": {
                "cached_tokens": usage.cached_tokens,
                "cache_write_tokens": usage.cache_write_tokens,
            },
            "output_tokens": usage.output_tokens,
            "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
            "total_tokens": usage.total_tokens,
        },
    }


error_responses = error_openai


def _items(reply: Reply, now: Conversation) -> Iterator[Json]:
    if reply.reasoning:
        summary = [{"type": "summary_text", "text": reply.reasoning}]
        yield {"type": "reasoning", "summary": summary, "encrypted_content": f"sealed-{now.turn}"}
    if reply.text or not reply.tool_calls:
        kind = ("refusal", "refusal") if finish_reason_of(reply) == "refusal" else ("output_text", "text")
        content: list[Json] = [{"type": kind[0], kind[1]: reply.text}]
        yield {"type": "message", "role": "assistant", "status": "completed", "content": content}
    for index, call in enumerate(reply.tool_calls):
        yield {
            "type": "function_call",
            "status": "completed",
            "call_id": call.id or call_id(now, index),
            "name": call.name,
            "arguments": arguments_of(call),
        }


def _empty(item: Json) -> Json:
    begun = {"status": "in_progress"} if "status" in item else {}
    blank: Json = {"content": [], "summary": [], "arguments": "", "encrypted_content": ""}
    return item | begun | {name: value for name, value in blank.items() if name in item}


def _event(kind: str, **fields: Any) -> bytes:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **fields})}\n\n".encode()
