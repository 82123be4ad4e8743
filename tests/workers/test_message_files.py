"""Images and PDFs as a model gets them: scripted model over HTTP, real Redis, real Docker."""

from __future__ import annotations

import base64
import json

import pytest

from envelope.messages import Attachment, TaskInput
from workers.llm.files import MAX_FILE_BYTES
from workers.sessions.checkpoints import Checkpoints

pytestmark = [pytest.mark.redis, pytest.mark.docker]

PNG = b"\x89PNG\r\n\x1a\nnot much of an image"
DATA = base64.b64encode(PNG).decode()
MAKE = "printf '\\211PNG\\r\\n\\032\\nnot much of an image' > /workspace/shot.png"
READS = f"""
rules:
  - {{when: {{turn: 1}}, reply: {{tool_calls: [{{name: bash, arguments: {{command: {json.dumps(MAKE)}}}}}]}}}}
  - {{when: {{turn: 2}}, reply: {{tool_calls: [{{name: read, arguments: {{filePath: shot.png}}}}]}}}}
  - {{reply: {{text: "I saw it: ${{result.1}}"}}}}
"""


@pytest.fixture
def look(start_hands, serve, workspace):
    async def run(script: str, model: str, **fields):
        server = await serve(script)
        settings = {key: fields.pop(key) for key in ("model_limits", "model_engine") if key in fields}
        base = server.base_url if model.startswith("openai/") else server.url
        hands = await start_hands(model=model, model_base_url=base, model_api_key="unused-key", **settings)
        told = {"agent": "build", "input": TaskInput(prompt="look"), "workspace": workspace, **fields}
        return await hands.result(hands.request(**told)), server, hands

    return run


@pytest.mark.parametrize("engine", ["direct", "litellm"])
async def test_an_image_that_is_read_is_seen_in_openais_format(look, engine):
    result, server, hands = await look(READS, "openai/gpt-4o", model_engine=engine)

    last = server.log.bodies[2]["messages"]
    assert last[-1]["content"][1] == {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{DATA}"}}
    assert "(image/png, 28 bytes; goes with this answer)" in result.output.text
    record = await hands.transport.record(result.task_id)
    session = await Checkpoints(hands.transport.blobs).load(record.checkpoint)
    [file] = [file for message in session.messages for file in message.files]
    assert (file.name, file.data) == ("shot.png", "")
    assert await hands.transport.blobs.get(file.blob) == PNG
    assert DATA not in session.dump().decode()


async def test_an_image_that_is_read_is_seen_in_anthropics_format(look):
    _, server, _ = await look(READS, "anthropic/claude-sonnet-4-5")

    [result] = [block for block in server.log.bodies[2]["messages"][-1]["content"] if block["type"] == "tool_result"]
    source = {"type": "base64", "media_type": "image/png", "data": DATA}
    assert result["content"][1] == {"type": "image", "source": source}


@pytest.mark.parametrize("limits", [{}, {"openai/gpt-4o": {"context": 128000, "output": 16384, "sees": ["pdf"]}}])
async def test_a_model_without_eyes_reads_why_it_sees_nothing(look, limits):
    model = next(iter(limits), "openai/scripted")
    result, server, _ = await look(READS, model, model_limits=limits)

    assert "shot.png (image/png, 28 bytes) is not shown: this model takes no such files" in result.output.text
    assert "base64" not in json.dumps([*server.log.bodies])


async def test_a_file_that_is_too_large_is_an_error_that_says_what_would_work(look):
    script = READS.replace(json.dumps(MAKE), json.dumps(f"{MAKE}; truncate -s {MAX_FILE_BYTES + 1} shot.png"))
    result, _, _ = await look(script, "openai/gpt-4o")

    assert f"has {MAX_FILE_BYTES + 1} bytes, and at most {MAX_FILE_BYTES} can be shown" in result.output.text


async def test_an_attached_image_is_part_of_the_prompt(look, transport):
    attached = Attachment(blob=await transport.blobs.put(PNG), name="shot.png", media_type="text/plain")
    script = "rules: [{when: {prompt_contains: look}, reply: {text: seen}}]"
    result, server, _ = await look(script, "openai/gpt-4o", attachments=(attached,))

    text, image = server.log.bodies[0]["messages"][1]["content"]
    assert "/tmp/attachments/shot.png (28 bytes): goes with this message" in text["text"]
    assert image["image_url"]["url"].endswith(DATA)
    assert result.output.text == "seen"
