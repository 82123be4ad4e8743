"""How deep subagents may go, and that several of one turn really work at the same time."""

from __future__ import annotations

import pytest

from envelope.lifecycle import State
from envelope.messages import TaskInput

pytestmark = [pytest.mark.redis, pytest.mark.docker]

SCOPE = ("read:**", "bash:**", "task:**")
# lead → middle → leaf, each a general agent; whoever is not offered `task` calls it all the same
NESTS = """
rules:
  - when: {prompt_contains: lead, turn: 1}
    reply: {tool_calls: [{name: task, arguments: {description: x, prompt: middle, subagent_type: general}}]}
  - when: {prompt_contains: middle, turn: 1}
    reply: {tool_calls: [{name: task, arguments: {description: x, prompt: leaf, subagent_type: general}}]}
  - when: {prompt_contains: leaf, turn: 1}
    reply: {tool_calls: [{name: task, arguments: {description: x, prompt: below, subagent_type: general}}]}
  - {when: {}, reply: {text: "${result.0}"}}
"""


def lead(hands, **fields):
    return hands.request(**{"agent": "build", "auth_scope": SCOPE, "input": TaskInput(prompt="lead"), **fields})


def tools_of(server, prompt: str) -> set[str]:
    [body, *_] = [body for body in server.log.bodies if body["messages"][1]["content"] == prompt]
    return {tool["function"]["name"] for tool in body["tools"]}


async def test_by_default_a_subagent_starts_none_and_is_told_why(start_agents):
    hands, server = await start_agents(NESTS)
    request = lead(hands)

    result = await hands.result(request)

    assert "one level too deep" in result.output.text and "do the work yourself" in result.output.text
    assert len(await hands.transport.tasks(trace_id=request.trace_id)) == 2
    assert ("task" in tools_of(server, "lead"), "task" in tools_of(server, "middle")) == (True, False)


async def test_a_worker_may_be_told_to_let_them_go_deeper(start_agents):
    hands, server = await start_agents(NESTS, subagent_depth=2)
    request = lead(hands)

    result = await hands.result(request)

    tasks = await hands.transport.tasks(trace_id=request.trace_id)
    scopes = [(await hands.transport.request(task.task_id)).auth_scope for task in tasks]
    assert result.status is State.COMPLETED and "one level too deep" in result.output.text
    assert scopes == [SCOPE, SCOPE, ("read:**", "bash:**")]
    assert [name for name in ("lead", "middle", "leaf") if "task" in tools_of(server, name)] == ["lead", "middle"]


async def test_a_worker_that_allows_more_lets_nobody_go_deeper_than_the_first_said(start_agents):
    hands, server = await start_agents(NESTS, subagent_depth=1)
    request = lead(hands)
    await hands.result(request)
    [_, record] = await hands.transport.tasks(trace_id=request.trace_id)
    child = await hands.transport.request(record.task_id)
    await hands.stop()
    others, _ = await start_agents("rules: []", subagent_depth=5, model_base_url=server.base_url)

    # as its caller had sent it, with all the grants that there are
    result = await others.result(lead(others, agent="general", recipient="general", input=child.input))

    assert "one level too deep" in result.output.text


async def test_where_no_depth_is_allowed_nobody_starts_any(start_agents):
    hands, server = await start_agents(NESTS, subagent_depth=0)

    result = await hands.result(lead(hands))

    assert "one level too deep" in result.output.text
    assert "task" not in tools_of(server, "lead")


MEET = """
rules:
  - {when: {prompt_contains: look, turn: 1}, reply: {tool_calls: [{name: bash, arguments: {command: sleep 600}}]}}
  - when: {prompt_contains: lead, turn: 1}
    reply:
      tool_calls:
        - {name: task, arguments: {description: a, prompt: look here, subagent_type: explore}}
        - {name: task, arguments: {description: b, prompt: look there, subagent_type: explore}}
        - {name: task, arguments: {description: c, prompt: look around, subagent_type: general}}
  - {when: {}, reply: {text: done}}
"""


async def test_several_of_one_turn_work_at_the_same_time_and_a_cancel_reaches_all(start_agents):
    hands, _ = await start_agents(MEET)
    request = lead(hands)
    await hands.transport.submit([request])
    working: set[str] = set()

    def all_work(progress) -> bool:
        if progress.task_id != request.task_id and any(event.kind == "tool_call" for event in progress.events):
            working.add(progress.task_id)
        return len(working) == 3

    await hands.until(request.trace_id, all_work)  # none of them ends by itself: all three are at it now
    await hands.transport.cancel(request.task_id, by="test", reason="enough")

    ends = [(await hands.ended(task_id)).status for task_id in (request.task_id, *working)]
    assert ends == [State.CANCELLED] * 4
