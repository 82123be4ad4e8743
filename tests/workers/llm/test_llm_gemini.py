"""Providers that are left to litellm: Gemini and Bedrock, against servers of their formats."""

from __future__ import annotations

import json
import struct
from contextlib import asynccontextmanager
from zlib import crc32

import pytest
from aiohttp import web

from envelope.budget import Usage
from workers.agent.history import with_reply
from workers.agent.session import Session
from workers.llm.base import CallStarted, ChatMessage, Completed, Text, ToolSpec
from workers.llm.litellm import LiteLlmModel
from workers.models import Models

ASKED = ChatMessage(role="user", content="read a.py and b.py")
READ = ToolSpec("read", "Reads.", {"type": "object", "properties": {"path": {"type": "string"}}})
OF_CALL, OF_TEXT = "c2lnbmVk" * 500, "dGV4dA=="


def gemini_parts(*parts: dict, **more) -> dict:
    return {"candidates": [{"content": {"role": "model", "parts": list(parts)}, **more}]}


def calls_read(path: str) -> dict:
    return {"functionCall": {"name": "read", "args": {"path": path}}}


CALLED = [
    gemini_parts({"text": "I should look", "thought": True}),
    gemini_parts({"text": "I look"}),
    gemini_parts(calls_read("a.py") | {"thoughtSignature": OF_CALL}, calls_read("b.py"), finishReason="STOP")
    | {
        "usageMetadata": {
            "promptTokenCount": 12,
            "candidatesTokenCount": 5,
            "thoughtsTokenCount": 7,
            "totalTokenCount": 24,
        }
    },
]
ANSWERED = [
    gemini_parts({"text": "It is empty"}),
    gemini_parts({"text": ".", "thoughtSignature": OF_TEXT}, finishReason="STOP"),
]


def as_events(events: list[dict]) -> bytes:
    return b"".join(b"data: " + json.dumps(event).encode() + b"\r\n\r\n" for event in events)


@asynccontextmanager
async def server_of(body: bytes, content_type: str):
    """Its address, and the path and the body of each request."""
    asked: list[tuple[str, dict]] = []

    async def answer(request: web.Request) -> web.Response:
        asked.append((request.path, await request.json()))
        return web.Response(body=body, content_type=content_type)

    application = web.Application()
    application.router.add_post("/{path:.*}", answer)
    runner = web.AppRunner(application)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}", asked
    finally:
        await runner.cleanup()


async def heard(model, messages) -> list:
    return [event async for event in model.stream(messages, [READ])]


def after(reply: Completed, name: str) -> list[ChatMessage]:
    """The history with the reply, as a stored session has it, and an answer to each of its calls."""
    session = with_reply(Session(agent="build", model=name, messages=(ASKED,)), reply, keep_calls=True)
    answers = [ChatMessage(role="tool", tool_call_id=call.id, name="read", content="x") for call in reply.tool_calls]
    messages = Session.model_validate_json(session.model_dump_json()).messages
    return [*messages, *(answers or [ChatMessage(role="user", content="go on")])]


def replied_parts(body: dict) -> list[dict]:
    return [part for content in body["contents"] if content["role"] == "model" for part in content["parts"]]


async def test_gemini_is_asked_through_litellm():
    async with server_of(as_events(CALLED), "text/event-stream") as (url, asked):
        name = "gemini/gemini-2.5-flash"
        events = await heard(Models(name, f"{url}/v1beta", "key-of-nobody").named(name, temperature=0.5), [ASKED])

    ((path, body),) = asked
    assert path == "/v1beta/models/gemini-2.5-flash:streamGenerateContent"
    assert body["tools"][0]["function_declarations"][0]["name"] == "read"
    assert [event.text for event in events if isinstance(event, Text)] == ["I look"]
    assert [event.name for event in events if isinstance(event, CallStarted)] == ["read", "read"]
    completed = events[-1]
    assert (completed.tool_calls[0].input, completed.finish_reason) == ({"path": "a.py"}, "tool_calls")
    assert completed.usage == Usage(input_tokens=12, output_tokens=12, reasoning_tokens=7)


async def test_geminis_signatures_of_calls_go_back_to_the_same_model_alone():
    async with server_of(as_events(CALLED), "text/event-stream") as (url, asked):
        name, other = "gemini/gemini-3.6-flash", "gemini/gemini-2.5-flash"
        models = Models(name, f"{url}/v1beta", "key-of-nobody")
        reply = (await heard(models.named(name), [ASKED]))[-1]
        await heard(models.named(name), after(reply, name))
        await heard(models.named(other), after(reply, name))

    assert all(len(call.id) <= 64 for call in reply.tool_calls) and OF_CALL in reply.tool_calls[0].provider_id
    signatures = [[part.get("thoughtSignature") for part in replied_parts(body)] for _, body in asked[1:]]
    assert signatures == [[None, OF_CALL, None], [None, None, None]]
    assert OF_CALL not in json.dumps(asked[1][1]["contents"][-1])  # nor in the answers' ids


async def test_geminis_signature_of_a_text_goes_back_with_it():
    async with server_of(as_events(ANSWERED), "text/event-stream") as (url, asked):
        name = "gemini/gemini-3.6-flash"
        model = Models(name, f"{url}/v1beta", "key-of-nobody").named(name)
        reply = (await heard(model, [ASKED]))[-1]
        await heard(model, after(reply, name))

    assert replied_parts(asked[1][1]) == [{"text": "It is empty.", "thoughtSignature": OF_TEXT}]


# --- Bedrock's binary events: a prelude, headers of type 7, JSON, and two checksums


def binary_event(kind: str, content: dict) -> bytes:
    fields = {":event-type": kind, ":content-type": "application/json", ":message-type": "event"}
    heads = b"".join(
        struct.pack(f">B{len(name)}sBH", len(name), name.encode(), 7, len(value)) + value.encode()
        for name, value in fields.items()
    )
    body = json.dumps(content).encode()
    prelude = struct.pack(">II", 16 + len(heads) + len(body), len(heads))
    message = prelude + struct.pack(">I", crc32(prelude)) + heads + body
    return message + struct.pack(">I", crc32(message))


def converse_stream() -> bytes:
    call = {"toolUse": {"toolUseId": "tooluse_1", "name": "read"}}
    said = [
        ("messageStart", {"role": "assistant"}),
        ("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"reasoningContent": {"text": "let me "}}}),
        ("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"reasoningContent": {"text": "see"}}}),
        ("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"reasoningContent": {"signature": "signed"}}}),
        ("contentBlockStop", {"contentBlockIndex": 0}),
        ("contentBlockStart", {"contentBlockIndex": 1, "start": call}),
        ("contentBlockDelta", {"contentBlockIndex": 1, "delta": {"toolUse": {"input": '{"path": "a.py"}'}}}),
        ("contentBlockStop", {"contentBlockIndex": 1}),
        ("messageStop", {"stopReason": "tool_use"}),
        ("metadata", {"usage": {"inputTokens": 9, "outputTokens": 7, "totalTokens": 16}, "metrics": {"latencyMs": 1}}),
    ]
    return b"".join(binary_event(kind, content) for kind, content in said)


@pytest.fixture
def region(monkeypatch):
    monkeypatch.setenv("AWS_REGION_NAME", "us-east-1")


async def test_signed_thoughts_and_cache_marks_go_to_anthropics_models_behind_bedrock(region):
    async with server_of(converse_stream(), "application/vnd.amazon.eventstream") as (url, asked):
        name = "bedrock/converse/us.anthropic.claude-sonnet-4-5-20250929-v1:0"
        model = LiteLlmModel(name, url, "key-of-nobody")
        reply = (await heard(model, [ASKED]))[-1]
        await heard(model, after(reply, name))

    assert (reply.reasoning, reply.tool_calls[0].input) == ("let me see", {"path": "a.py"})
    user, assistant, answer = asked[1][1]["messages"]
    assert assistant["content"][0] == {
        "reasoningContent": {"reasoningText": {"text": "let me see", "signature": "signed"}}
    }
    assert assistant["content"][1]["toolUse"]["toolUseId"] == "tooluse_1"
    assert [block["cachePoint"] for one in (user, answer) for block in one["content"] if "cachePoint" in block] == [
        {"type": "default"}
    ] * 2
