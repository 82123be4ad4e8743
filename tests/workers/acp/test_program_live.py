"""What a program does is seen while it does it."""

from __future__ import annotations

import pytest

from envelope.events import CallState, TextDelta, TodoUpdated, ToolCallChanged
from envelope.messages import TaskProgress

pytestmark = [pytest.mark.redis, pytest.mark.docker]


async def test_words_calls_and_plans_are_seen_while_the_program_works(start_agents, led, agent_file, steps, go_on):
    hands, _ = await start_agents("rules: []", agents={"foreign": agent_file()})
    request = led(hands, steps(("begins", "I look at ", "Run the tests"), ("pause",), ("ends",)))
    await hands.transport.submit([request])
    seen: list[TaskProgress] = []

    def plans(progress: TaskProgress) -> bool:
        seen.append(progress)
        return any(isinstance(event, TodoUpdated) for event in progress.events)

    await hands.until(request.trace_id, plans)

    events = [event for progress in seen for event in progress.events]
    assert [event.text for event in events if isinstance(event, TextDelta)] == ["I look at "]
    [call] = [event for event in events if isinstance(event, ToolCallChanged)]
    assert (call.tool, call.title, call.state) == ("bash", "Run the tests", CallState.RUNNING)
    assert seen[-1].partial_output == "I look at "
    go_on(request)
    result = await hands.ended(request.task_id)
    assert [(call.tool, call.is_error) for call in result.tool_calls] == [("bash", False)]
    assert (await hands.events(request.trace_id, "tool_call"))[-1].state is CallState.COMPLETED
