"""`/compact` to a session that has ended, and a small window under way, as a fleet runs them."""

from __future__ import annotations

import pytest

from envelope.lifecycle import State
from envelope.messages import TaskInput

pytestmark = [pytest.mark.redis, pytest.mark.docker]

MODEL = "openai/scripted"
FULL = "usage: {input_tokens: 8000, output_tokens: 10}"
SCRIPT = f"""
rules:
  - {{when: {{system_contains: You write the notes}}, reply: {{text: "## Objective: X is 1."}}}}
  - {{when: {{user_contains: Go on with}}, reply: {{text: It is 1.}}}}
  - {{when: {{user_contains: And now}}, reply: {{text: Still 1.}}}}
  - {{when: {{turn: 1}}, reply: {{tool_calls: [{{name: read, arguments: {{filePath: src/other.py}}}}], {FULL}}}}}
"""


@pytest.fixture
def start(start_agents, workspace):
    async def begin(context: int):
        limits = {MODEL: {"context": context, "output": 8_000}}
        hands, server = await start_agents(SCRIPT, model_limits=limits)

        def asks(prompt: str, **fields):
            told = {"agent": "build", "auth_scope": ("read:**",), "workspace": workspace}
            return hands.request(**told, input=TaskInput(prompt=prompt), **fields)

        return hands, server, asks

    return begin


async def test_a_full_window_is_compacted_and_a_later_task_goes_on_from_the_summary(start):
    hands, server, asks = await start(context=16_000)
    first = asks("What is X?")

    result = await hands.result(first)

    assert (result.status, result.output.text, result.metrics.turns) == (State.COMPLETED, "It is 1.", 3)
    assert len(await hands.events(first.trace_id, "compaction")) == 1
    assert [body["max_tokens"] for body in server.log.bodies] == [8_000] * 3  # what the policy keeps free for it
    later = await hands.result(asks("And now?", resume_token=result.resume_token))
    said = [message["content"] for message in server.log.bodies[-1]["messages"]]
    assert later.output.text == "Still 1."
    assert "## Objective: X is 1." in said and "What is X?" not in said


async def test_an_ended_session_is_compacted_on_request_and_keeps_its_answer(start):
    hands, server, asks = await start(context=0)
    first = await hands.result(asks("And now?"))
    request = asks("/compact", resume_token=first.resume_token)

    compacted = await hands.result(request)

    assert (compacted.status, compacted.output.text) == (State.COMPLETED, "Still 1.")
    assert len(await hands.events(request.trace_id, "compaction")) == 1
    assert server.log.requests == 2 and "/compact" not in str(server.log.bodies[1]["messages"])
    await hands.result(asks("And now again?", resume_token=compacted.resume_token))
    assert "## Objective: X is 1." in [message["content"] for message in server.log.bodies[2]["messages"]]
