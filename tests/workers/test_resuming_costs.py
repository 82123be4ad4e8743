"""What attempts that were lost have paid counts in the result of the one that ends, and in its own budget."""

from __future__ import annotations

import pytest

from envelope.budget import Budget
from envelope.messages import TaskInput

pytestmark = [pytest.mark.redis, pytest.mark.docker]
MODEL = "openai/scripted"
PRICES = {MODEL: {"input": 1_000_000, "output": 100_000_000}}
SCRIPT = """
rules:
  - when: {turn: 1}
    reply:
      usage: {input_tokens: 100, output_tokens: 2000}
      tool_calls: [{name: bash, arguments: {command: "sleep 60"}}]
  - reply: {text: "done", usage: {input_tokens: 100, output_tokens: 100}}
"""
ENDS = """
rules:
  - reply: {text: "done", usage: {input_tokens: 100, output_tokens: 100}}
"""


async def test_a_turn_that_a_drain_threw_away_is_in_the_result(start_agents, workspace):
    first, _ = await start_agents(SCRIPT, prices=PRICES)
    budget = Budget(max_cost_microusd=5_000_000)
    request = first.request(
        agent="build", auth_scope=("bash:**",), workspace=workspace, input=TaskInput(prompt="go"), budget=budget
    )
    await first.transport.submit([request])
    await first.until(request.trace_id, lambda told: any(each.kind == "tool_call" for each in told.events))
    await first.stop()
    second, _ = await start_agents(ENDS, prices=PRICES)
    result = await second.ended(request.task_id)

    assert result.attempt == 2
    assert result.metrics.cost_microusd == (await second.transport.ledger(request.trace_id)).spent_microusd == 210_200
