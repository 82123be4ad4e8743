"""Does a request hold what its vendor wants to see again of an earlier reply? Knows nothing of ours.

The rules, with the pages that have them:

- Anthropic: an assistant turn as it came, thinking and unknown blocks unchanged and in place
  (https://platform.claude.com/docs/en/build-with-claude/extended-thinking, …/handling-stop-reasons).
- OpenAI's responses: every reasoning item, with its `encrypted_content`, in place (openai 3.57:
  `ResponseReasoningItem`); `phase` of messages (`ResponseOutputMessage`).
- OpenRouter: `reasoning_details` in the order and with the content that they had
  (https://openrouter.ai/docs/use-cases/reasoning-tokens).
- DeepSeek and Z.AI: `reasoning_content` of turns with calls (https://api-docs.deepseek.com/guides/thinking_mode,
  https://docs.z.ai/guides/capabilities/thinking-mode); gpt-oss and its like want theirs under the name that it had.
- Gemini: thought signatures where they were (https://ai.google.dev/gemini-api/docs/thought-signatures).
"""

from __future__ import annotations

import json
from typing import Any

from . import bedrock
from .oracle import merged_details
from .truth import ANSWER, CALLS, Json, Truth

# These hosts keep a model's thoughts to themselves, or do not want them again.
FORGETFUL = ("api.openai.com", "azure.com", "perplexity", "xai", "api.x.ai")
# These items are known by what they hold, and a request may leave out the rest; all others go back as they came.
OURS_TO_NAME = ("message", "reasoning", "function_call")
OPTIONAL = ("id", "status", "annotations", "logprobs")


def lost(wire: str, host: str, truth: Truth, request: Any) -> list[str]:
    """What the request after the reply should have of it and has not, as short classes; [] when all is there."""
    if truth.kind not in (ANSWER, CALLS) or not truth.back or not isinstance(request, dict):
        return []
    match wire:
        case "anthropic":
            return _anthropic(truth, request)
        case "openai":
            return _openai(truth, host, request)
        case "responses":
            return _responses(truth, request)
        case "gemini":
            return _gemini(truth, request)
        case "bedrock":
            return bedrock.lost(truth, request)
    return []


def _anthropic(truth: Truth, request: Json) -> list[str]:
    sent = [_block(b) for m in request["messages"] if m["role"] == "assistant" for b in _blocks(m["content"])]
    # Text without a character, and thoughts without a signature, are refused in a request.
    due = [
        _block(block)
        for block in truth.back
        if not (block["type"] == "text" and not block["text"].strip())
        and not (block["type"] == "thinking" and not block.get("signature"))
    ]
    return _differences(due, sent)


def _blocks(content: Any) -> list[Json]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _block(block: Json) -> Json:
    """Without marks of ours, nulls, and what says the same as nothing."""
    return {
        key: value
        for key, value in block.items()
        if value not in (None, []) and key != "cache_control" and (key, value) != ("caller", {"type": "direct"})
    }


def _responses(truth: Truth, request: Json) -> list[str]:
    given = request.get("input")
    sent = _kept([item for item in given if _is_of_model(item)] if isinstance(given, list) else [])
    return min((_differences(_kept(items), sent) for items in (truth.back, truth.again) if items), key=len)


def _kept(items: list[Json]) -> list[Json]:
    """All but a thought without its text, encrypted or plain: a server that stored it knows it, and nobody else."""
    return [
        _item(item)
        for item in items
        if item.get("type") != "reasoning" or item.get("encrypted_content") or item.get("content")
    ]


def _is_of_model(item: Json) -> bool:
    kind = item.get("type", "message")
    return item.get("role") == "assistant" if kind == "message" else kind != "function_call_output"


def _item(item: Json) -> Json:
    """Without what a request may leave out; a message's text may be sent as a plain string."""
    kept = {k: v for k, v in item.items() if v is not None and v != []}
    kind = kept.setdefault("type", "message")
    if kind not in OURS_TO_NAME:
        return kept
    if kind == "message" and isinstance(kept.get("content"), str):
        kept["content"] = [{"type": "output_text", "text": kept["content"]}]
    if "content" in kept:
        kept["content"] = [{k: v for k, v in part.items() if k not in OPTIONAL and v} for part in kept["content"]]
    if kind == "reasoning":
        kept.setdefault("summary", [])
    return {k: v for k, v in kept.items() if k not in OPTIONAL}


def _differences(due: list[Json], sent: list[Json]) -> list[str]:
    if due == sent:
        return []
    kinds = [[one["type"] for one in many] for many in (due, sent)]
    left = list(sent)
    reasons: list[str] = []
    for one in due:
        if one in left:
            left.remove(one)
        else:
            fate = "changed" if any(one["type"] == other["type"] for other in left) else "lost"
            reasons.append(f"back: {one['type']} {fate}")
    if not reasons:
        reasons.append("back: order" if sorted(kinds[0]) == sorted(kinds[1]) else "back: more than came")
    return reasons


def _openai(truth: Truth, host: str, request: Json) -> list[str]:
    replies = [message for message in request["messages"] if message["role"] == "assistant"]
    if not replies:
        return ["back: reply lost"]
    sent, due, reasons = replies[-1], truth.back, list[str]()
    ids = [call.get("id") for call in sent.get("tool_calls") or []]
    reasons += [
        "back: call id changed"
        for place, call in enumerate(truth.calls)
        if call.id and _is_own(call.id, truth) and (place >= len(ids) or ids[place] != call.id)
    ]
    if due["details"]:
        if merged_details(sent.get("reasoning_details") or []) != due["details"]:
            reasons.append("back: reasoning_details lost")
    elif truth.calls and not any(part in host for part in FORGETFUL):
        reasons += [f"back: {key} lost" for key, said in due["keys"].items() if sent.get(key) != said][:1]
    if due["content"] and sent.get("content") != due["content"]:
        reasons.append("back: content parts lost")
    told = json.dumps(sent)
    reasons += ["back: extra_content lost" for extra in due["extra"] if json.dumps(extra) not in told]
    return reasons


def _is_own(call_id: str, truth: Truth) -> bool:
    """Some servers give all calls of a reply one id; then nobody can send them back."""
    return sum(call.id == call_id for call in truth.calls) == 1


def _gemini(truth: Truth, request: Json) -> list[str]:
    sent = [p for c in request.get("contents") or [] if c.get("role") == "model" for p in c.get("parts") or []]
    told = json.dumps(sent)
    reasons: list[str] = []
    for part in truth.back:
        name = next((k for k in ("functionCall", "executableCode", "toolCall", "toolResponse") if k in part), "")
        # Of a text it is wanted, too, but nothing is refused without it.
        if name and (sign := part.get("thoughtSignature")) and json.dumps(sign) not in told:
            reasons.append(f"back: signature of {name} lost")
    return reasons
