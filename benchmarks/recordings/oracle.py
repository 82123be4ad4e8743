"""What a provider's reply says, from its bytes and its vendor's documentation alone: the judge of the codecs.

Nothing of `workers` is imported here, so that no fault of ours can be in both. The sources are the vendors' SDK types
(openai 3.57, anthropic 2.14, google-genai 3.6) and their pages, named where a rule is not plain.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from . import bedrock
from .truth import (
    ANSWER,
    CALLS,
    ERROR,
    INTERRUPTED,
    LENGTH,
    PAUSED,
    REFUSED,
    Call,
    Json,
    Truth,
    events_of,
    in_band,
    refusal_of,
)


def read(wire: str, host: str, status: int, content_type: str, body: bytes) -> Truth:
    """The truth of one exchange; `ValueError` for a wire that nobody has described here.

    A count of nothing cannot be true of a request, nor of a reply with words: it is the reader's to estimate then, for
    a budget must not stand still, and no count of the oracle's.
    """
    truth = _read(wire, host, status, content_type, body)
    says = {"input": True, "output": bool(truth.text or truth.reasoning or truth.calls)}
    if truth.usage:
        truth.usage = {name: count for name, count in truth.usage.items() if count or not says.get(name)}
    return truth


def _read(wire: str, host: str, status: int, content_type: str, body: bytes) -> Truth:
    if status != 200:
        return refusal_of(status, body)
    if wire == "bedrock":
        return bedrock.read(content_type, body)
    streamed = "event-stream" in content_type
    try:
        events = list(events_of(body)) if streamed else [json.loads(body.removeprefix(b"\xef\xbb\xbf"))]
    except ValueError:
        return Truth()
    match wire:
        case "openai":
            return _openai(events, host, streamed=streamed)
        case "anthropic":
            return _anthropic(events) if streamed else _anthropic_message(events[0])
        case "responses":
            return _responses(events, streamed=streamed)
        case "gemini":
            return _gemini(events)
    raise ValueError(wire)


# --- OpenAI's chat completions, and those who speak them

_OPENAI_REASONS = {
    "stop": ANSWER,
    "tool_calls": CALLS,
    "function_call": CALLS,
    "length": LENGTH,
    "content_filter": REFUSED,
    # Words of servers that only speak alike: Mistral's documentation has `model_length`, HuggingFace's TGI `eos_token`.
    "model_length": LENGTH,
    "eos_token": ANSWER,
    "eos": ANSWER,
    "end_turn": ANSWER,
    "max_tokens": LENGTH,
}


def _openai(events: list[Any], host: str, *, streamed: bool) -> Truth:
    truth, reason, usage, refusal, done = Truth(), "", {}, "", not streamed
    content: list[Any] = []
    keys: dict[str, str] = {}
    details: list[Json] = []
    extra: list[Json] = []
    calls: list[Json] = []
    for event in events:
        if event is None:
            done = True
            break
        if not isinstance(event, dict):
            return Truth()
        if error := event.get("error"):
            failed = in_band(error if isinstance(error, dict) else {"message": str(error)})
            if reason:  # it had said how it ended
                failed.also = (_OPENAI_REASONS.get(reason, INTERRUPTED),)
            return failed
        usage = event.get("usage") or (event.get("x_groq") or {}).get("usage") or usage
        for choice in (event.get("choices") or [])[:1]:
            said = choice.get("delta") or choice.get("message") or {}
            reason = choice.get("finish_reason") or reason
            usage = choice.get("usage") or usage  # Moonshot's streams
            refusal += said.get("refusal") or ""
            _add_content(content, said.get("content"))
            for key in ("reasoning_content", "reasoning"):
                keys[key] = keys.get(key, "") + (said.get(key) or "")
            details += said.get("reasoning_details") or []
            extra += [said["extra_content"]] if said.get("extra_content") else []
            for place, piece in enumerate(said.get("tool_calls") or []):
                _add_call(calls, piece, place)
            # The format's first way to call, deprecated.
            if (old := said.get("function_call")) and old.get("name"):
                _add_call(calls, {"id": "", "function": old}, 0)
    if not any(isinstance(event, dict) and "choices" in event for event in events):
        return truth
    parts = [part for part in content if part["type"] == "text"]
    truth.text = "".join(part["text"] for part in parts)
    thoughts = [part for part in content if part["type"] == "thinking"]
    truth.reasoning = (
        keys.get("reasoning_content")
        or keys.get("reasoning")
        or "".join(piece.get("text", "") for part in thoughts for piece in part["thinking"])
    )
    truth.calls = [Call(call["id"], call["name"], call["arguments"]) for call in calls]
    truth.usage = _openai_usage(usage)
    truth.back = {
        "keys": {key: said for key, said in keys.items() if said},
        "details": merged_details(details),
        "content": content if thoughts else [],
        "extra": extra + [call["extra"] for call in calls if call["extra"]],
    }
    if not reason and done:  # all has come, and nobody said why it ended
        reason = "stop"
    truth.kind = _OPENAI_REASONS.get(reason, INTERRUPTED)
    if refusal:
        truth.kind = REFUSED
    return _settled(truth)


def _settled(truth: Truth) -> Truth:
    """Servers say `stop` for a reply with calls, and `tool_calls` for one without: what it holds counts."""
    if truth.kind in (ANSWER, CALLS):
        truth.kind = CALLS if truth.calls else ANSWER
    return truth


def _add_content(content: list[Json], said: Any) -> None:
    """A text, or parts: Mistral's hold thoughts (https://docs.mistral.ai/capabilities/reasoning)."""
    for part in [{"type": "text", "text": said}] if isinstance(said, str) else said or []:
        part = {"type": "text", "text": part} if isinstance(part, str) else part
        last = content[-1] if content else None
        if part.get("type") == "text" and last and last["type"] == "text":
            last["text"] += part.get("text") or ""
        elif part.get("type") == "thinking" and last and last["type"] == "thinking":
            last["thinking"] = last["thinking"] + part["thinking"]
        else:
            content.append(dict(part))


def _add_call(calls: list[Json], piece: Json, place: int) -> None:
    """A piece belongs to the call of its index, unless it brings another id."""
    function = piece.get("function") or {}
    index = piece["index"] if piece.get("index") is not None else place
    given = piece.get("id") or ""
    call = next((call for call in reversed(calls) if call["index"] == index), None)
    if call is None or (given and given != call["id"]):
        call = {"index": index, "id": given, "name": function.get("name") or "", "arguments": "", "extra": None}
        calls.append(call)
    arguments = function.get("arguments") or ""
    call["arguments"] += arguments if isinstance(arguments, str) else json.dumps(arguments)
    call["extra"] = piece.get("extra_content") or call["extra"]


def merged_details(details: list[Json]) -> list[Json]:
    """Streamed pieces of one block have its index and type; https://openrouter.ai/docs/use-cases/reasoning-tokens."""
    whole: list[Json] = []
    for piece in details:
        last = whole[-1] if whole else None
        if last and (last.get("type"), last.get("index")) == (piece.get("type"), piece.get("index")):
            for key, value in piece.items():
                grows = key in ("text", "summary", "data") and isinstance(last.get(key), str) and value
                last[key] = last[key] + value if grows else last.get(key) if value is None else value
        else:
            whole.append(dict(piece))
    return whole


def _openai_usage(usage: Mapping[str, Any]) -> dict[str, int] | None:
    """`completion_tokens` counts thoughts at OpenAI and not at xAI; the total always does."""
    if not usage:
        return None
    sent, made = usage.get("prompt_tokens_details") or {}, usage.get("completion_tokens_details") or {}
    prompt, completion = usage.get("prompt_tokens") or 0, usage.get("completion_tokens") or 0
    cached = (sent, "cached_tokens"), (usage, "prompt_cache_hit_tokens"), (usage, "cached_tokens")
    return {
        "input": prompt,
        "output": max(completion, (usage.get("total_tokens") or 0) - prompt),
        "cached": next((n for where, key in cached if (n := where.get(key))), 0),
        "cache_write": sent.get("cache_write_tokens") or 0,
        "reasoning": made.get("reasoning_tokens") or 0,
    }


# --- Anthropic's messages

_ANTHROPIC_REASONS = {  # https://platform.claude.com/docs/en/build-with-claude/handling-stop-reasons
    "end_turn": ANSWER,
    "stop_sequence": ANSWER,
    "tool_use": CALLS,
    "max_tokens": LENGTH,
    "pause_turn": PAUSED,
    "refusal": REFUSED,
}


def _anthropic(events: list[Any]) -> Truth:
    """A stream put together as the SDK's `accumulate_event` does, up to `message_stop`."""
    message: Json = {}
    blocks: dict[int, Json] = {}
    texts: dict[int, str] = {}
    over = restarted = False
    for event in events:
        match event and event.get("type"):
            case "message_start":
                restarted = restarted or bool(blocks)
                message, blocks, texts = {**event["message"], "usage": dict(event["message"]["usage"])}, {}, {}
            case "content_block_start":
                blocks[event["index"]] = dict(event["content_block"])
            case "content_block_delta":
                _add_delta(blocks[event["index"]], texts, event["index"], event["delta"])
            case "message_delta":
                message.update({k: v for k, v in event["delta"].items() if v is not None})
                message.setdefault("usage", {}).update(
                    {k: v for k, v in (event.get("usage") or {}).items() if v is not None}
                )
            case "message_stop":
                over = True
                break
            case "error":
                return in_band(event["error"])
    for index, text in texts.items():
        if text:
            blocks[index]["input"] = text
    message["content"] = [blocks[index] for index in sorted(blocks)]
    truth = _anthropic_message(message)
    if not over:
        truth.kind = INTERRUPTED
    if restarted:  # some gateway began anew in the middle: a try more is as good
        truth.also = (INTERRUPTED,)
    return truth


def _add_delta(block: Json, texts: dict[int, str], index: int, delta: Json) -> None:
    match delta["type"]:
        case "text_delta":
            block["text"] = block.get("text", "") + delta["text"]
        case "thinking_delta":
            block["thinking"] = block.get("thinking", "") + delta["thinking"]
        case "signature_delta":
            block["signature"] = delta["signature"]
        case "input_json_delta":
            texts[index] = texts.get(index, "") + delta["partial_json"]
        case "citations_delta":
            block["citations"] = [*(block.get("citations") or []), delta["citation"]]
        case "compaction_delta":
            block.update({k: v for k, v in delta.items() if k != "type"})


def _anthropic_message(message: Json) -> Truth:
    if not isinstance(message, dict):
        return Truth()
    if message.get("type") == "error":
        return in_band(message["error"])
    truth = Truth(kind=_ANTHROPIC_REASONS.get(message.get("stop_reason") or "", INTERRUPTED))
    if message.get("stop_reason") == "model_context_window_exceeded":
        truth.kind, truth.error, truth.also = ERROR, "overflow", (LENGTH,)
    back: list[Json] = []
    for block in message.get("content") or []:
        given = block.get("input")
        match block["type"]:
            case "text":
                truth.text += block["text"]
            case "thinking":
                truth.reasoning += block["thinking"]
            case "tool_use":
                text = given if isinstance(given, str) else json.dumps(given or {})
                truth.calls.append(Call(block["id"], block["name"], text))
        if isinstance(given, str):
            try:
                block = {**block, "input": json.loads(given)}
            except ValueError:
                block = {**block, "input": {}}
        back.append(block)
    truth.back = back
    usage = message.get("usage") or {}
    read, written = usage.get("cache_read_input_tokens") or 0, usage.get("cache_creation_input_tokens") or 0
    truth.usage = {
        # https://platform.claude.com/docs/en/build-with-claude/prompt-caching: the total is the sum of the three
        "input": (usage.get("input_tokens") or 0) + read + written,
        "output": usage.get("output_tokens") or 0,
        "cached": read,
        "cache_write": written,
        "reasoning": (usage.get("output_tokens_details") or {}).get("thinking_tokens") or 0,
    }
    return truth


# --- OpenAI's responses


def _responses(events: list[Any], *, streamed: bool) -> Truth:
    """The items of the last event, or those that were done one by one where it holds none."""
    done: dict[int, Json] = {}
    response: Json | None = None if streamed else events[0]
    for event in events if streamed else ():
        match event and event.get("type"):
            case "response.output_item.done":
                done[event["output_index"]] = event["item"]
            case "response.completed" | "response.incomplete" | "response.failed":
                response = event["response"]
                break
            case "error":
                return in_band(event.get("error") or event)
    if not isinstance(response, dict):
        return Truth()
    if isinstance(error := response.get("error"), dict):
        return in_band(error)
    # Encrypted thoughts differ in the two, and vendors name either as the one to keep.
    items = [done[index] for index in sorted(done)] or response.get("output") or []
    truth, texts, refused = Truth(), [], False
    for item in items:
        for part in item.get("content") or []:
            match part.get("type"):
                case "output_text":
                    texts.append(part["text"])
                case "refusal":
                    refused = True
                case "reasoning_text":
                    truth.reasoning += part["text"]
        if item["type"] == "reasoning":
            truth.reasoning += "".join(part["text"] for part in item.get("summary") or [])
        if item["type"] == "function_call":
            truth.calls.append(Call(item["call_id"], item["name"], item["arguments"]))
    truth.text, truth.pieces, truth.back, truth.again = "".join(texts), len(texts), items, response.get("output")
    why = (response.get("incomplete_details") or {}).get("reason")
    incomplete = {"max_output_tokens": LENGTH, "content_filter": REFUSED}.get(why, INTERRUPTED)
    # queued, in_progress, failed and cancelled are no replies
    truth.kind = {"completed": ANSWER, "incomplete": incomplete}.get(response.get("status", ""), INTERRUPTED)
    if refused and truth.kind == ANSWER:
        truth.kind = REFUSED
    if usage := response.get("usage"):
        sent, made = usage.get("input_tokens_details") or {}, usage.get("output_tokens_details") or {}
        truth.usage = {
            "input": usage["input_tokens"],
            "output": max(usage["output_tokens"], (usage.get("total_tokens") or 0) - usage["input_tokens"]),
            "cached": sent.get("cached_tokens") or 0,
            "cache_write": sent.get("cache_write_tokens") or 0,
            "reasoning": made.get("reasoning_tokens") or 0,
        }
    return _settled(truth)


# --- Gemini

_GEMINI_REASONS = {"STOP": ANSWER, "MAX_TOKENS": LENGTH} | dict.fromkeys(
    ("SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "IMAGE_SAFETY", "MODEL_ARMOR"), REFUSED
)


def _gemini(events: list[Any]) -> Truth:
    truth, reason, usage = Truth(), "", {}
    parts: list[Json] = []
    for event in events:
        if error := event.get("error"):
            return in_band(error)
        if (event.get("promptFeedback") or {}).get("blockReason"):
            reason = "SAFETY"
        usage = event.get("usageMetadata") or usage
        for candidate in (event.get("candidates") or [])[:1]:
            parts += (candidate.get("content") or {}).get("parts") or []
            reason = candidate.get("finishReason") or reason
    for part in parts:
        if "functionCall" in part:
            call = part["functionCall"]
            truth.calls.append(Call(call.get("id") or "", call["name"], json.dumps(call.get("args") or {})))
        elif part.get("thought"):
            truth.reasoning += part.get("text") or ""
        else:
            truth.text += part.get("text") or ""
    truth.kind, truth.back = _GEMINI_REASONS.get(reason, INTERRUPTED), parts
    thoughts = usage.get("thoughtsTokenCount") or 0
    truth.usage = {
        "input": (usage.get("promptTokenCount") or 0) + (usage.get("toolUsePromptTokenCount") or 0),
        "output": (usage.get("candidatesTokenCount") or 0) + thoughts,
        "cached": usage.get("cachedContentTokenCount") or 0,
        "cache_write": 0,
        "reasoning": thoughts,
    }
    return _settled(truth)
