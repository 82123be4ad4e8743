"""A caller that waits for its subagents holds neither a slot nor a sandbox, and goes on as if nothing had happened."""

from __future__ import annotations

import pytest

from envelope.lifecycle import State
from envelope.messages import TaskInput, TaskProgress
from workers.subagents.children import PARK_AFTER_S

pytestmark = [pytest.mark.redis, pytest.mark.docker]

SCOPE = ("read:**", "edit:**", "bash:**", "task:**")

# Served by the pool of its caller.
AGENTS = {"helper": "---\ndescription: helps\nmode: subagent\npool: build\n---\nYou help."}
LEADS = """
rules:
  - when: {prompt_contains: write one, turn: 1}
    reply: {tool_calls: [{name: write, arguments: {filePath: src/one.py, content: "X = 1\\n"}}]}
  - when: {prompt_contains: write two, turn: 1}
    reply: {tool_calls: [{name: write, arguments: {filePath: src/two.py, content: "X = 2\\n"}}]}
  - when: {prompt_contains: write}
    reply: {text: wrote it}
  - when: {prompt_contains: lead, turn: 1}
    reply:
      tool_calls:
        - {name: task, arguments: {description: one, prompt: write one, subagent_type: helper}}
        - {name: bash, arguments: {command: "echo ran >> runs; cat runs"}}
        - {name: task, arguments: {description: two, prompt: write two, subagent_type: helper}}
        - {name: read, arguments: {filePath: src/other.py}}
  - when: {prompt_contains: lead, turn: 2}
    reply: {tool_calls: [{name: edit, arguments: {filePath: src/other.py, oldString: X = 1, newString: X = 3}}]}
  - when: {prompt_contains: lead, turn: 3}
    reply: {tool_calls: [{name: bash, arguments: {command: "cat runs src/one.py src/two.py src/other.py"}}]}
  - when: {prompt_contains: lead}
    reply: {text: "${result.0} | ${result.1} | ${result.2} | ${result.5}"}
"""


SEEN = ["ran", "X = 1", "X = 2", "X = 3"]
WAITS = """
rules:
  - {when: {prompt_contains: look, turn: 1}, reply: {tool_calls: [{name: bash, arguments: {command: sleep 3}}]}}
  - {when: {prompt_contains: look}, reply: {text: I looked.}}
  - when: {prompt_contains: lead, turn: 1}
    reply: {tool_calls: [{name: task, arguments: {description: x, prompt: look, subagent_type: explore}}]}
  - {when: {prompt_contains: lead}, reply: {text: "${result.0}"}}
"""


@pytest.fixture
def start_leads(start_agents):
    async def start(script: str = LEADS, **settings):
        return await start_agents(script, **{"slots": 1, "agents": AGENTS, **settings})

    return start


def lead(hands, workspace, **fields):
    told = {"agent": "build", "auth_scope": SCOPE, "workspace": workspace, "input": TaskInput(prompt="lead")}
    return hands.request(**{**told, **fields})


def works(progress: TaskProgress) -> bool:
    return any(event.kind == "tool_call" for event in progress.events)


def is_parked(task_id: str):
    return lambda progress: progress.task_id == task_id and progress.status is State.WAITING


async def test_one_slot_is_enough_for_a_caller_and_its_subagents(start_leads, workspace):
    hands, _ = await start_leads()

    result = await hands.result(lead(hands, workspace))

    assert (result.status, result.errors) == (State.COMPLETED, ())
    one, ran, two, seen = result.output.text.split(" | ")
    assert "wrote it" in one and "wrote it" in two  # answers stand in the order of the calls
    assert ran.strip() == "ran"
    assert seen.split("\n") == SEEN  # no call ran twice, the patches are there, and what was read may be edited
    assert [file.path for file in result.patch.files] == ["runs", "src/one.py", "src/other.py", "src/two.py"]
    assert [call.tool for call in result.tool_calls] == ["task", "bash", "task", "read", "edit", "bash"]


async def test_a_parked_turn_is_neither_asked_nor_paid_again(start_leads, workspace):
    hands, server = await start_leads()
    request = lead(hands, workspace)

    result = await hands.result(request)

    told = await hands.events(request.trace_id, task_id=request.task_id)
    states = [event.state for event in told if event.kind == "state"]
    costs = [event.cost_microusd for event in told if event.kind == "turn_finished"]
    record = await hands.transport.record(request.task_id)
    assert states[:5] == [State.PENDING, State.RUNNING, State.WAITING, State.PENDING, State.RUNNING]
    assert (record.lost_leases, record.retries) == (0, 0)
    assert (result.metrics.turns, result.metrics.tool_calls) == (4, 6)
    assert result.metrics.latency_ms > 1000 * PARK_AFTER_S  # all its attempts, and what it waited
    assert server.log.requests == 4 + 2 * 2
    assert len(costs) == 4 and sum(costs) == result.metrics.cost_microusd > 0


async def test_while_a_caller_is_parked_nothing_of_it_runs(start_leads, workspace, containers_of_task):
    hands, _ = await start_leads()
    request = lead(hands, workspace)
    await hands.transport.submit([request])

    await hands.until(request.trace_id, is_parked(request.task_id))

    record = await hands.transport.record(request.task_id)
    assert containers_of_task(request.task_id) == []
    assert len(record.waits_for) == 2
    assert (await hands.ended(request.task_id)).status is State.COMPLETED


async def test_another_worker_goes_on_with_a_parked_caller(start_leads, workspace):
    hands, server = await start_leads()
    request = lead(hands, workspace)
    await hands.transport.submit([request])
    await hands.until(request.trace_id, is_parked(request.task_id))
    await hands.stop()
    others, _ = await start_leads("rules: []", model_base_url=server.base_url)

    result = await others.ended(request.task_id)

    assert (result.status, result.metrics.turns) == (State.COMPLETED, 4)
    assert result.output.text.split(" | ")[3].split("\n") == SEEN


async def test_a_caller_that_is_stopped_as_it_begins_to_wait_starts_no_subagent_twice(start_leads, workspace):
    hands, server = await start_leads(WAITS)
    request = lead(hands, workspace)
    await hands.transport.submit([request])
    await hands.until(request.trace_id, lambda progress: progress.task_id != request.task_id and works(progress))
    await hands.stop()
    others, _ = await start_leads("rules: []", model_base_url=server.base_url)

    result = await others.ended(request.task_id)

    assert "I looked." in result.output.text
    assert len(await hands.transport.tasks(trace_id=request.trace_id)) == 2
    asked = [body["messages"] for body in server.log.bodies if body["messages"][1]["content"] == "lead"]
    assert len(asked) == 2


async def test_a_quick_subagent_parks_nobody(start_leads, workspace):
    hands, _ = await start_leads(slots=4, park_after_s=3600)  # quick is what comes before it: not a matter of speed
    request = lead(hands, workspace)

    result = await hands.result(request)

    assert (result.status, result.attempt) == (State.COMPLETED, 1)


async def test_a_parked_caller_that_is_cancelled_ends_with_its_subagents(start_leads, workspace):
    hands, _ = await start_leads()
    request = lead(hands, workspace)
    await hands.transport.submit([request])
    await hands.until(request.trace_id, is_parked(request.task_id))

    await hands.transport.cancel(request.task_id, by="test", reason="enough")

    states = {
        (await hands.ended(task.task_id)).status for task in await hands.transport.tasks(trace_id=request.trace_id)
    }
    assert states == {State.CANCELLED}
