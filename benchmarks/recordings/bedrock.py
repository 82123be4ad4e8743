"""Bedrock's Converse: what its replies say, and a whole one as the stream that says the same.

The forms are those of https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_Converse.html and
…/API_runtime_ConverseStream.html. Knows nothing of ours.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from typing import Any
from zlib import crc32

from .truth import ANSWER, CALLS, ERROR, INTERRUPTED, LENGTH, REFUSED, Call, Json, Truth

STREAM = "application/vnd.amazon.eventstream"
_REASONS = {
    "end_turn": ANSWER,
    "stop_sequence": ANSWER,
    "tool_use": CALLS,
    "max_tokens": LENGTH,
    "guardrail_intervened": REFUSED,
    "content_filtered": REFUSED,
}
_PRELUDE = struct.Struct(">III")  # the message's length, its headers' length, and their checksum


def read(content_type: str, body: bytes) -> Truth:
    blocks: list[Json] = []
    if STREAM not in content_type:
        reply = json.loads(body)
        blocks = reply["output"]["message"]["content"]
        return _truth(blocks, reply.get("stopReason", ""), reply.get("usage") or {})
    reason, usage, open_blocks = "", {}, dict[int, Json]()
    for kind, said in messages(body):
        match kind:
            case "contentBlockStart":
                open_blocks[said["contentBlockIndex"]] = {name: dict(start) for name, start in said["start"].items()}
            case "contentBlockDelta":
                _add(open_blocks.setdefault(said["contentBlockIndex"], {}), said["delta"])
            case "messageStop":
                reason = said["stopReason"]
            case "metadata":
                usage = said["usage"]
            case _ if kind.endswith("Exception"):
                return Truth(kind=ERROR, error="unavailable")
    return _truth([open_blocks[index] for index in sorted(open_blocks)], reason, usage)


def _add(block: Json, delta: Json) -> None:
    for name, said in delta.items():
        if isinstance(said, str):
            block[name] = block.get(name, "") + said
        elif isinstance(said, dict):
            _add(block.setdefault(name, {}), said)


def _truth(blocks: list[Json], reason: str, usage: Json) -> Truth:
    truth = Truth(kind=_REASONS.get(reason, INTERRUPTED), back=blocks)
    for block in blocks:
        truth.text += block.get("text") or ""
        thought = block.get("reasoningContent") or {}
        truth.reasoning += (thought.get("reasoningText") or thought).get("text") or ""
        if (call := block.get("toolUse")) and call.get("type") != "server_tool_use":
            given = call.get("input") or {}
            text = given if isinstance(given, str) else json.dumps(given)
            truth.calls.append(Call(call["toolUseId"], call["name"], text))
    read, written = usage.get("cacheReadInputTokens") or 0, usage.get("cacheWriteInputTokens") or 0
    truth.usage = {
        # https://docs.aws.amazon.com/bedrock/latest/userguide/prompt-caching.html: the cache's are counted beside
        "input": (usage.get("inputTokens") or 0) + read + written,
        "output": usage.get("outputTokens") or 0,
        "cached": read,
        "cache_write": written,  # and of thoughts it says nothing
    }
    if truth.kind in (ANSWER, CALLS):
        truth.kind = CALLS if truth.calls else ANSWER
    return truth


def lost(truth: Truth, request: Any) -> list[str]:
    """Thoughts that are signed or sealed, and the ids of calls."""
    told = json.dumps([m for m in request["messages"] if m["role"] == "assistant"])
    reasons: list[str] = []
    for block in truth.back:
        thought = block.get("reasoningContent") or {}
        sealed = thought.get("redactedContent") or (thought.get("reasoningText") or thought).get("signature")
        if sealed and json.dumps(sealed) not in told:
            reasons.append("back: reasoningContent lost")
    reasons += ["back: call id changed" for call in truth.calls if json.dumps(call.id) not in told]
    return reasons


# --- the binary form of its streams


def messages(body: bytes) -> Iterator[tuple[str, Json]]:
    """The type and the content of each message of https://smithy.io/2.0/aws/amazon-eventstream.html."""
    place = 0
    while place + _PRELUDE.size <= len(body):
        whole, heads, _ = _PRELUDE.unpack_from(body, place)
        start = place + _PRELUDE.size
        fields = dict(_fields(body[start : start + heads]))
        kind = fields.get(":event-type") or fields.get(":exception-type") or ""
        yield kind, json.loads(body[start + heads : place + whole - 4])
        place += whole


def _fields(data: bytes) -> Iterator[tuple[str, str]]:
    """Texts only (type 7), as its JSON events have them."""
    place = 0
    while place < len(data):
        name_end = place + 1 + data[place]
        value = name_end + 3
        end = value + int.from_bytes(data[name_end + 1 : value], "big")
        yield data[place + 1 : name_end].decode(), data[value:end].decode()
        place = end


def streamed(body: bytes) -> bytes:
    """A whole reply, as the stream that says the same."""
    reply = json.loads(body)
    said: list[tuple[str, Json]] = [("messageStart", {"role": "assistant"})]
    for index, block in enumerate(reply["output"]["message"]["content"]):
        here = {"contentBlockIndex": index}
        if call := block.get("toolUse"):
            start = {name: value for name, value in call.items() if name != "input"}
            said.append(("contentBlockStart", here | {"start": {"toolUse": start}}))
            said.append(("contentBlockDelta", here | {"delta": {"toolUse": {"input": json.dumps(call["input"])}}}))
        elif thought := block.get("reasoningContent"):
            for name, value in (thought.get("reasoningText") or thought).items():
                said.append(("contentBlockDelta", here | {"delta": {"reasoningContent": {name: value}}}))
        elif "text" in block:
            said.append(("contentBlockDelta", here | {"delta": {"text": block["text"]}}))
        said.append(("contentBlockStop", here))
    said.append(("messageStop", {"stopReason": reply["stopReason"]}))
    said.append(("metadata", {"usage": reply["usage"], "metrics": reply.get("metrics") or {"latencyMs": 1}}))
    return b"".join(_message(kind, content) for kind, content in said)


def _message(kind: str, content: Json) -> bytes:
    fields = {":event-type": kind, ":content-type": "application/json", ":message-type": "event"}
    heads = b"".join(_text(name) + b"\x07" + _text(value, ">H") for name, value in fields.items())
    payload = json.dumps(content).encode()
    lengths = struct.pack(">II", _PRELUDE.size + len(heads) + len(payload) + 4, len(heads))
    front = lengths + struct.pack(">I", crc32(lengths)) + heads + payload
    return front + struct.pack(">I", crc32(front))


def _text(text: str, length: str = ">B") -> bytes:
    return struct.pack(length, len(text.encode())) + text.encode()
