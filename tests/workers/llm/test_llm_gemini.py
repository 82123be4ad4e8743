"""A provider that is left to litellm: Gemini, against a server of its format."""

from __future__ import annotations

import json

from aiohttp import web

from envelope.budget import Usage
from workers.llm.base import CallStarted, ChatMessage, Text, ToolSpec
from workers.models import Models

READ = ToolSpec("read", "Reads.", {"type": "object", "properties": {"path": {"type": "string"}}})
REPLY = [
    {"candidates": [{"content": {"role": "model", "parts": [{"text": "I look"}]}}]},
    {
        "candidates": [
            {
                "content": {"role": "model", "parts": [{"functionCall": {"name": "read", "args": {"path": "a.py"}}}]},
                "finishReason": "STOP",
            }
        ],
        "usageMetadata": {"promptTokenCount": 12, "candidatesTokenCount": 5, "totalTokenCount": 17},
    },
]


async def test_gemini_is_asked_through_litellm():
    asked = []

    async def answer(request: web.Request) -> web.StreamResponse:
        asked.append((request.path, await request.json()))
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        for event in REPLY:
            await response.write(b"data: " + json.dumps(event).encode() + b"\r\n\r\n")
        return response

    application = web.Application()
    application.router.add_post("/{path:.*}", answer)
    runner = web.AppRunner(application)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1beta"

    model = Models("gemini/gemini-2.5-flash", url, "key-of-nobody").named("gemini/gemini-2.5-flash", temperature=0.5)
    events = [event async for event in model.stream([ChatMessage(role="user", content="read a.py")], [READ])]
    await runner.cleanup()

    ((path, body),) = asked
    assert path == "/v1beta/models/gemini-2.5-flash:streamGenerateContent"
    assert body["tools"][0]["function_declarations"][0]["name"] == "read"
    assert [event.text for event in events if isinstance(event, Text)] == ["I look"]
    assert [event.name for event in events if isinstance(event, CallStarted)] == ["read"]
    completed = events[-1]
    assert (completed.tool_calls[0].input, completed.finish_reason) == ({"path": "a.py"}, "tool_calls")
    assert completed.usage == Usage(input_tokens=12, output_tokens=5)
