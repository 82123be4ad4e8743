"""Anthropic's messages as the scripted server speaks them. Pure.

It signs what its model thought together with the conversation up to there, and refuses a request that brings a thought
back behind another one, in the provider's words ("Preserved thinking"): whoever changes what was said fails here, too.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from typing import Any, cast

from .dialect_parts import Json, Users, arguments_of, call_id, finish_reason_of, pieces, text_of, usage_of
from .script import Conversation, Reply, ScriptedCall

_SIGNED = "signed-"
_REASONS = {"stop": "end_turn", "tool_calls": "tool_use", "length": "max_tokens", "content_filter": "refusal"}
_ERRORS = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    529: "overloaded_error",
}


def read_anthropic(body: Json) -> Conversation:
    """A user message may hold tool results, and words beside them."""
    users = Users()
    results: list[str] = []
    turn, chars = 1, 0
    for message in cast(Sequence[Json], body.get("messages") or []):
        blocks = _blocks(message.get("content"))
        if message.get("role") == "assistant":
            turn += 1
            users.model_speaks()
        results += [text_of(block.get("content")) for block in blocks if block.get("type") == "tool_result"]
        if message.get("role") == "user":
            for text in (str(block.get("text", "")) for block in blocks if block.get("type") == "text"):
                users.say(text)
        chars += sum(len(str(block.get("text", ""))) for block in blocks)
    system = "\n".join(str(block.get("text", "")) for block in _blocks(body.get("system")))
    return Conversation(
        model=str(body.get("model", "")),
        system=system,
        prompt=users.prompt,
        opening=users.opening,
        user=users.latest,
        results=tuple(results),
        turn=turn,
        chars=chars + len(system) + sum(map(len, results)),
        digest=_digest(body, [*_said(body)]),
    )


def refused_anthropic(body: Json) -> str:
    """Why the provider would not take the request; empty when it would."""
    said = [*_said(body)]
    for place, block in enumerate(said):
        signature = str(block.get("signature", ""))
        if signature.startswith(_SIGNED) and not signature.endswith(_digest(body, said[:place])):
            return f"Invalid `signature` in `thinking` block. The block is bound to a different conversation. ({place})"
    return ""


def _said(body: Json) -> Iterator[Json]:
    """Every block of every message, as what it was signed with."""
    for message in cast(Sequence[Json], body.get("messages") or []):
        for block in _blocks(message.get("content")):
            yield {"role": message.get("role"), **_unmarked(block)}


def _digest(body: Json, said: Sequence[Json]) -> str:
    """Of system, tools and what was said, without the cache marks, which are no part of it."""
    head = [_unmarked(block) for block in (*_blocks(body.get("system")), *(body.get("tools") or ()))]
    return hashlib.sha256(json.dumps([head, *said]).encode()).hexdigest()[:16]


def _unmarked(block: Json) -> Json:
    return {name: value for name, value in block.items() if name != "cache_control"}


def stream_anthropic(reply: Reply, now: Conversation, body: Json) -> Iterator[bytes]:
    """The reply as server-sent events, block by block, in the provider's order."""
    usage = _usage(reply, now)
    begun: Json = _message(reply, now) | {"content": [], "stop_reason": None, "usage": usage | {"output_tokens": 1}}
    yield _event("message_start", message=begun)
    yield _event("ping")
    for index, (block, deltas) in enumerate(_parts(reply, now)):
        yield _event("content_block_start", index=index, content_block=block)
        for delta in deltas:
            yield _event("content_block_delta", index=index, delta=delta)
        yield _event("content_block_stop", index=index)
    ended = {"stop_reason": _reason(reply), "stop_sequence": None}
    yield _event("message_delta", delta=ended, usage={"output_tokens": usage["output_tokens"]})
    yield _event("message_stop")


def whole_anthropic(reply: Reply, now: Conversation) -> Json:
    """The reply to a request that wants no stream: the same deltas, put together."""
    content: list[Json] = []
    for block, deltas in _parts(reply, now):
        whole = dict(block)
        for delta in deltas:
            for key, piece in delta.items():
                if key in whole and key != "type":
                    whole[key] += piece
        content.append(whole)
    for block, call in zip((b for b in content if b["type"] == "tool_use"), reply.tool_calls, strict=True):
        block["input"] = call.arguments
    return _message(reply, now) | {"content": content}


def error_anthropic(status: int, message: str, code: str) -> Json:
    kind = _ERRORS.get(status, "api_error")
    return {"type": "error", "error": {"type": code or kind, "message": message}}


def _parts(reply: Reply, now: Conversation) -> Iterator[tuple[Json, list[Json]]]:
    """Each block as it begins, and its deltas."""
    if reply.reasoning:
        thoughts: list[Json] = [
            {"type": "thinking_delta", "thinking": piece} for piece in pieces(reply.reasoning, reply)
        ]
        signed = {"type": "signature_delta", "signature": f"{_SIGNED}{now.turn}-{now.digest}"}
        yield {"type": "thinking", "thinking": "", "signature": ""}, [*thoughts, signed]
    if reply.text:
        yield (
            {"type": "text", "text": ""},
            [{"type": "text_delta", "text": piece} for piece in pieces(reply.text, reply)],
        )
    for index, call in enumerate(reply.tool_calls):
        yield (
            _call(call, call.id or call_id(now, index)),
            [{"type": "input_json_delta", "partial_json": piece} for piece in pieces(arguments_of(call), reply)],
        )


def _call(call: ScriptedCall, identity: str) -> Json:
    return {"type": "tool_use", "id": identity, "name": call.name, "input": {}}


def _message(reply: Reply, now: Conversation) -> Json:
    return {
        "id": f"scripted-{now.turn}",
        "type": "message",
        "role": "assistant",
        "model": now.model,
        "stop_reason": _reason(reply),
        "stop_sequence": None,
        "usage": _usage(reply, now),
    }


def _usage(reply: Reply, now: Conversation) -> Json:
    """The format counts what its cache had, or took in, beside the other input."""
    usage = usage_of(reply, now)
    return {
        "input_tokens": usage.input_tokens - usage.cached_tokens - usage.cache_write_tokens,
        "cache_read_input_tokens": usage.cached_tokens,
        "cache_creation_input_tokens": usage.cache_write_tokens,
        "output_tokens": usage.output_tokens,
        "output_tokens_details": {"thinking_tokens": usage.reasoning_tokens},
    }


def _reason(reply: Reply) -> str:
    reason = finish_reason_of(reply)
    return _REASONS.get(reason, reason)


def _event(kind: str, **fields: Any) -> bytes:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **fields})}\n\n".encode()


def _blocks(content: Any) -> list[Json]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else cast(list[Json], content or [])
