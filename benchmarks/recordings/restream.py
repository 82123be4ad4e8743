"""A whole reply of one of our wires, as the stream in which its vendor would have sent it. Knows nothing of ours.

We ask for streams, and most recordings are whole replies. The order of events is that of
https://platform.claude.com/docs/en/build-with-claude/streaming and of the SDK's `ResponseStreamEvent`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from .truth import Json

STREAM = "text/event-stream; charset=utf-8"
PIECES = 3


def streamed(wire: str, body: bytes) -> bytes:
    reply = json.loads(body)
    events = {"openai": _chat, "anthropic": _message, "responses": _response}[wire](reply)
    if wire == "openai":
        return "".join([*(f"data: {json.dumps(event)}\n\n" for event in events), "data: [DONE]\n\n"]).encode()
    return "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events).encode()


def _split(text: str) -> Iterator[str]:
    size = len(text) // PIECES + 1
    yield from (text[i : i + size] for i in range(0, len(text), size))


def _chat(reply: Json) -> Iterator[Json]:
    def chunk(delta: Json, reason: str | None = None) -> Json:
        return {
            "id": reply.get("id"),
            "object": "chat.completion.chunk",
            "model": reply.get("model"),
            "choices": [{"index": 0, "delta": delta, "finish_reason": reason}],
        }

    choice = reply["choices"][0]
    message = choice["message"]
    pieced = ("content", "reasoning", "reasoning_content", "reasoning_details", "tool_calls")
    yield chunk({name: value for name, value in message.items() if name not in pieced})
    for name in ("reasoning", "reasoning_content", "content"):
        said = message.get(name)
        yield from (
            chunk({name: piece}) for piece in (_split(said) if isinstance(said, str) else [said] if said else [])
        )
    yield from (chunk({"reasoning_details": [detail]}) for detail in message.get("reasoning_details") or [])
    for index, call in enumerate(message.get("tool_calls") or []):
        function = call.get("function") or {}
        yield chunk({"tool_calls": [call | {"index": index, "function": function | {"arguments": ""}}]})
        for piece in _split(function.get("arguments") or ""):
            yield chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
    yield chunk({}, choice.get("finish_reason") or None)
    yield {**chunk({}), "choices": [], "usage": reply.get("usage")}


def _message(reply: Json) -> Iterator[Json]:
    usage = reply.get("usage") or {}
    yield {
        "type": "message_start",
        "message": reply | {"content": [], "stop_reason": None, "usage": usage | {"output_tokens": 1}},
    }
    yield {"type": "ping"}
    for index, block in enumerate(reply["content"]):
        start, deltas = _block(block)
        yield {"type": "content_block_start", "index": index, "content_block": start}
        yield from ({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas)
        yield {"type": "content_block_stop", "index": index}
    ended = {name: reply[name] for name in ("stop_reason", "stop_sequence", "stop_details") if name in reply}
    yield {"type": "message_delta", "delta": ended, "usage": usage}
    yield {"type": "message_stop"}


def _block(block: Json) -> tuple[Json, list[Json]]:
    match block["type"]:
        case "text":
            texts = [{"type": "text_delta", "text": piece} for piece in _split(block["text"])]
            cited = [{"type": "citations_delta", "citation": one} for one in block.get("citations") or []]
            return block | {"text": ""} | ({"citations": []} if cited else {}), cited + texts
        case "thinking":
            said: list[Json] = [{"type": "thinking_delta", "thinking": piece} for piece in _split(block["thinking"])]
            signed = {"type": "signature_delta", "signature": block.get("signature") or ""}
            return block | {"thinking": "", "signature": ""}, [*said, signed]
        case "tool_use" | "server_tool_use" | "mcp_tool_use":
            given = json.dumps(block["input"])
            return block | {"input": {}}, [
                {"type": "input_json_delta", "partial_json": p} for p in ("", *_split(given))
            ]
        case _:
            return block, []


def _response(reply: Json) -> Iterator[Json]:
    begun = reply | {"status": "in_progress", "output": [], "usage": None}
    said: list[Json] = [{"type": kind, "response": begun} for kind in ("response.created", "response.in_progress")]
    for index, item in enumerate(reply["output"]):
        said += (event | {"output_index": index} for event in _item(item))
    kind = {"completed": "response.completed", "incomplete": "response.incomplete"}.get(
        reply["status"], "response.failed"
    )
    said.append({"type": kind, "response": reply})
    yield from (event | {"sequence_number": number} for number, event in enumerate(said))


def _item(item: Json) -> Iterator[Json]:
    known: Json = {"item_id": item.get("id")}
    if item["type"] not in ("message", "reasoning", "function_call"):
        yield {"type": "response.output_item.added", "item": item}
        yield {"type": "response.output_item.done", "item": item}
        return
    empty = {"message": {"content": []}, "reasoning": {"summary": []}, "function_call": {"arguments": ""}}[item["type"]]
    yield {"type": "response.output_item.added", "item": item | {"status": "in_progress"} | empty}
    for place, part in enumerate(item.get("summary") or []):
        at = known | {"summary_index": place}
        yield {"type": "response.reasoning_summary_part.added", **at, "part": part | {"text": ""}}
        yield from _text("response.reasoning_summary_text", at, part["text"])
        yield {"type": "response.reasoning_summary_part.done", **at, "part": part}
    for place, part in enumerate(item.get("content") or []):
        at, name = known | {"content_index": place}, "refusal" if part["type"] == "refusal" else "text"
        yield {"type": "response.content_part.added", **at, "part": part | {name: ""}}
        yield from _text(f"response.{part['type']}", at, part[name], name)
        yield {"type": "response.content_part.done", **at, "part": part}
    if item["type"] == "function_call":
        yield from _text("response.function_call_arguments", known, item["arguments"], "arguments")
    yield {"type": "response.output_item.done", "item": item}


def _text(kind: str, at: Json, text: str, name: str = "text") -> Iterator[Any]:
    yield from ({"type": f"{kind}.delta", **at, "delta": piece} for piece in _split(text))
    yield {"type": f"{kind}.done", **at, name: text}
