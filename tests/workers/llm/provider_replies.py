"""Replies of our own in each provider's way, as `provider_cases.toml` says it; for `test_provider_matrix.py`."""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass
from typing import Any
from zlib import crc32

from benchmarks.recordings import bedrock, restream

Json = dict[str, Any]

TEXT, THOUGHTS, SEAL = "Füße, in so many words.", "let me see what is there", "c2VhbGVk"
PATHS = ("a.py", "b.py")
INPUT, OUTPUT, CACHED, THOUGHT, COST_MICROUSD = 40, 9, 30, 4, 12_500


@dataclass(frozen=True)
class Say:
    """What a reply holds."""

    text: str = TEXT
    thoughts: bool = False
    calls: bool = False
    own: bool = False
    end: str = ""  # `limit`, `refusal` or `interrupted`


# --- a whole reply, as each format has it


def chat(case: Json, say: Say) -> Json:
    message: Json = {"role": "assistant", "content": say.text}
    match case.get("thoughts") if say.thoughts else None:
        case None:
            pass
        case "parts":
            message["content"] = [{"type": "thinking", "thinking": [_said(THOUGHTS)]}, *_texts(say)]
        case "reasoning_details":
            message["reasoning_details"] = [{"type": "reasoning.text", "text": THOUGHTS, "signature": SEAL, "index": 0}]
        case key:
            message[key] = THOUGHTS
    if say.calls:
        message["tool_calls"] = [
            {"id": f"call{place:05}", "function": {"name": "read", "arguments": json.dumps({"path": path})}}
            for place, path in enumerate(PATHS)
        ]
    reasons = {"": "tool_calls" if say.calls else "stop", "limit": "length", "refusal": "content_filter"}
    reason = case.get(say.end) or reasons[say.end]
    if reason == "refusal":
        message["refusal"], reason = message.pop("content"), "stop"
    return {"choices": [{"message": message, "finish_reason": reason}]}


def _said(text: str) -> Json:
    return {"type": "text", "text": text}


def _texts(say: Say) -> list[Json]:
    return [_said(say.text)] if say.text else []


def _halves(say: Say) -> list[Json]:
    return [{"text": half} for half in (say.text[:11], say.text[11:]) if half]


def chat_usage(case: Json) -> bytes:
    usage: Json = {"prompt_tokens": INPUT, "completion_tokens": OUTPUT, "total_tokens": INPUT + OUTPUT}
    details = {"prompt_tokens_details": {"cached_tokens": CACHED}}
    event: Json = {"choices": [], "usage": usage}
    match case.get("usage"):
        case "deepseek":
            usage |= {"prompt_cache_hit_tokens": CACHED, "prompt_cache_miss_tokens": INPUT - CACHED}
        case "beside":  # thoughts are in the total alone
            usage |= details | {"completion_tokens": OUTPUT - THOUGHT}
        case "x_groq":
            event = {"choices": [], "x_groq": {"usage": usage | details}}
        case "choice":
            event = {"choices": [{"index": 0, "delta": {}, "usage": usage | {"cached_tokens": CACHED}}]}
        case _:
            usage |= details
    if "cost" in case:
        told = {"openrouter": {"cost": COST_MICROUSD / 1e6}, "xai": {"cost_in_usd_ticks": COST_MICROUSD * 10_000}}
        usage |= told[case["cost"]]
    return f"data: {json.dumps(event)}\n\ndata: [DONE]".encode()


def responses(case: Json, say: Say) -> Json:
    part = {"type": "refusal", "refusal": TEXT} if say.end == "refusal" else {"type": "output_text", "text": TEXT}
    summary = [{"type": "summary_text", "text": THOUGHTS}]
    output: list[Json] = [
        {"type": "reasoning", "id": "rs", "summary": summary, "encrypted_content": SEAL}
    ] * say.thoughts
    output += OWN["responses"] if say.own else []
    output += [{"type": "message", "id": "msg", "role": "assistant", "content": [part]}] * bool(say.text)
    for place, path in enumerate(PATHS if say.calls else ()):
        call = {"call_id": f"call_{place}", "name": "read", "arguments": json.dumps({"path": path})}
        output.append({"type": "function_call", "id": f"fc_{place}", **call})
    usage = {
        "input_tokens": INPUT,
        "output_tokens": OUTPUT,
        "total_tokens": INPUT + OUTPUT,
        "input_tokens_details": {"cached_tokens": CACHED},
    }
    reply: Json = {"object": "response", "status": "completed", "output": output, "usage": usage}
    if say.end == "limit":
        reply |= {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}
    return reply


def anthropic(case: Json, say: Say) -> Json:
    content: list[Json] = [{"type": "thinking", "thinking": THOUGHTS, "signature": SEAL}] * say.thoughts
    content += OWN["anthropic"] if say.own else []
    content += _texts(say)
    for place, path in enumerate(PATHS if say.calls else ()):
        content.append({"type": "tool_use", "id": f"toolu_{place}", "name": "read", "input": {"path": path}})
    usage = {"input_tokens": INPUT - CACHED, "cache_read_input_tokens": CACHED, "output_tokens": OUTPUT}
    reasons = {"": "tool_use" if say.calls else "end_turn", "limit": "max_tokens", "refusal": "refusal"}
    return {"type": "message", "role": "assistant", "content": content, "usage": usage} | {
        "stop_reason": reasons[say.end]
    }


def gemini(case: Json, say: Say) -> list[Json]:
    parts: list[Json] = [{"text": THOUGHTS, "thought": True}] * say.thoughts
    parts += _halves(say)
    for path in PATHS if say.calls else ():
        parts.append({"functionCall": {"name": "read", "args": {"path": path}}} | {"thoughtSignature": SEAL})
    reason = {"": "STOP", "limit": "MAX_TOKENS", "refusal": "SAFETY"}[say.end]
    usage = {
        "promptTokenCount": INPUT,
        "candidatesTokenCount": OUTPUT - THOUGHT,
        "thoughtsTokenCount": THOUGHT,
        "cachedContentTokenCount": CACHED,
        "totalTokenCount": INPUT + OUTPUT,
    }
    events: list[Json] = [{"candidates": [{"content": {"role": "model", "parts": [part]}}]} for part in parts]
    events[-1]["candidates"][0]["finishReason"] = reason
    return [*events[:-1], events[-1] | {"usageMetadata": usage}]


def converse(case: Json, say: Say) -> Json:
    thought = {"reasoningContent": {"reasoningText": {"text": THOUGHTS, "signature": SEAL}}}
    content: list[Json] = [thought] * say.thoughts + _halves(say)
    for place, path in enumerate(PATHS if say.calls else ()):
        content.append({"toolUse": {"toolUseId": f"tooluse_{place}", "name": "read", "input": {"path": path}}})
    reasons = {"": "tool_use" if say.calls else "end_turn", "limit": "max_tokens", "refusal": "content_filtered"}
    usage = {"inputTokens": INPUT - CACHED, "outputTokens": OUTPUT, "totalTokens": INPUT - CACHED + OUTPUT}
    return {
        "output": {"message": {"role": "assistant", "content": content}},
        "stopReason": reasons[say.end],
        "usage": usage | {"cacheReadInputTokens": CACHED},
    }


OWN: dict[str, list[Json]] = {
    "responses": [{"type": "web_search_call", "id": "ws", "status": "completed", "action": {"type": "search"}}],
    "anthropic": [
        {"type": "server_tool_use", "id": "srvtoolu_0", "name": "web_search", "input": {"query": "feet"}},
        {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_0", "content": []},
    ],
}


def stream(case: Json, say: Say) -> bytes:
    """As the provider streams it. What is interrupted breaks off, or ends with the provider's word for that."""
    if say.end == "interrupted" and case.get("interrupted") in (None, "connection"):
        return _begun(case, stream(case, Say()))
    match case["wire"]:
        case "chat":
            whole = restream.streamed("openai", json.dumps(chat(case, say)).encode())
            return whole.replace(b"data: [DONE]", chat_usage(case))
        case "gemini":
            return _events(*gemini(case, say))
        case "bedrock":
            return bedrock.streamed(json.dumps(converse(case, say)).encode())
        case wire:
            make = {"responses": responses, "anthropic": anthropic}[wire]
            return restream.streamed(wire, json.dumps(make(case, say)).encode())


def _begun(case: Json, whole: bytes) -> bytes:
    """The beginning of a stream, up to a word or two."""
    if case["wire"] == "bedrock":
        return whole[: whole.index(b"contentBlockStop") // 2]
    events = whole.split(b"\n\n") if b"\r\n" not in whole else whole.split(b"\r\n\r\n")
    first = next(place for place, event in enumerate(events) if TEXT[0].encode() in event or b"F\\u00fc" in event)
    return b"".join(event + b"\n\n" for event in events[: first + 1])


def _events(*events: Json) -> bytes:
    return b"".join(f"data: {json.dumps(event)}\r\n\r\n".encode() for event in events)


def error_in_stream(case: Json) -> bytes:
    if case["wire"] == "bedrock":
        return _begun(case, stream(case, Say())) + _exception("throttlingException", {"message": "Too many tokens."})
    error = case.get("error") or {"error": {"message": "The server had an error.", "type": "server_error"}}
    named = f"event: {error['type']}\n".encode() if "type" in error else b""
    return _begun(case, stream(case, Say())) + named + f"data: {json.dumps(error)}\n\n".encode()


def _exception(kind: str, content: Json) -> bytes:
    """A message of Bedrock's binary stream; see `benchmarks.recordings.bedrock`."""
    fields = {":exception-type": kind, ":content-type": "application/json", ":message-type": "exception"}
    heads = b"".join(
        struct.pack(f">B{len(name)}sBH", len(name), name.encode(), 7, len(value)) + value.encode()
        for name, value in fields.items()
    )
    body = json.dumps(content).encode()
    prelude = struct.pack(">II", 16 + len(heads) + len(body), len(heads))
    message = prelude + struct.pack(">I", crc32(prelude)) + heads + body
    return message + struct.pack(">I", crc32(message))
