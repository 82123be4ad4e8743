"""Tasks whose session a program leads, from the queue to the patch: real sandboxes, a scripted model over HTTP."""

from __future__ import annotations

import pytest

from envelope.lifecycle import State

pytestmark = [pytest.mark.redis, pytest.mark.docker]

SAYS = """
rules:
  - reply: {text: "the model says yes"}
"""
GREET = "/workspace/src/greet.py"


async def test_a_program_asks_the_model_edits_a_file_and_its_patch_comes_out(start_agents, led, agent_file, steps):
    hands, server = await start_agents(SAYS, agents={"foreign": agent_file(prompt="Be brief.")})
    request = led(hands, steps(("openai", "may I?"), ("edits", GREET, "X = 3\n"), ("noise",)))

    result = await hands.result(request)

    assert result.errors == ()
    assert result.status is State.COMPLETED
    assert "the model says yes\nedited" in result.output.text
    assert "LIE" not in result.output.text
    assert [file.path for file in result.patch.files] == ["src/greet.py"]
    assert [(call.tool, call.is_error) for call in result.tool_calls] == [("edit", False)]
    assert (result.metrics.turns, result.metrics.tool_calls) == (1, 1)
    assert result.metrics.cost_microusd > 0
    assert [body["model"] for body in server.log.bodies] == ["scripted"]
