"""A task without a repository: its sandbox is opened by the first call that needs one."""

from __future__ import annotations

import pytest

from envelope.messages import TaskInput, TaskProgress

pytestmark = [pytest.mark.redis, pytest.mark.docker]

THINKS = """
rules:
  - when: {turn: 1}
    reply: {tool_calls: [{name: bash, arguments: {command: echo here}}]}
  - fault: {stall_s: 600}
"""


def began(turn: int):
    def seen(progress: TaskProgress) -> bool:
        return any(event.kind == "turn_started" and event.turn == turn for event in progress.events)

    return seen


@pytest.mark.parametrize(("script", "turn", "opened"), [("rules: [{fault: {stall_s: 600}}]", 1, 0), (THINKS, 2, 1)])
async def test_the_first_call_that_needs_a_sandbox_opens_it(
    start_agents, containers_of_task, script: str, turn: int, opened: int
):
    hands, _ = await start_agents(script)
    request = hands.request(agent="build", input=TaskInput(prompt="Look."))
    await hands.transport.submit([request])

    await hands.until(request.trace_id, began(turn))

    assert len(containers_of_task(request.task_id)) == opened
    await hands.transport.cancel(request.task_id, by="test", reason="seen")
    assert (await hands.ended(request.task_id)).status == "cancelled"
