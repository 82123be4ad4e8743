"""Agents' tasks as a fleet runs them: scripted model over HTTP, real Redis, real Docker, real git."""

from __future__ import annotations

import asyncio

import pytest

from envelope.budget import Budget
from envelope.errors import ErrorCode
from envelope.lifecycle import State
from envelope.messages import TaskInput, TaskProgress, Workspace
from envelope.scope import narrow

pytestmark = [pytest.mark.redis, pytest.mark.docker]

MODEL = "openai/scripted"
BUILD_SCOPE = ("read:**", "list:**", "glob:**", "grep:**", "edit:src/**", "bash:**", "task:**")

FANS_OUT = r"""
rules:
  - when: {prompt_contains: find the callers, turn: 1}
    reply: {tool_calls: [{name: grep, arguments: {pattern: "greet\\(", path: /workspace}}]}
  - when: {prompt_contains: find the callers, turn: 2}
    capture: {where: {result: 0, pattern: 'Line (\d+): +(assert.*)', line: 'tests/test_greet.py:\1 \2'}}
    reply: {text: "${where}"}
  - when: {prompt_contains: improve, turn: 1}
    reply:
      tool_calls:
        - {name: task, arguments: {description: callers, prompt: find the callers, subagent_type: explore}}
        - {name: read, arguments: {filePath: /workspace/src/greet.py}}
  - when: {prompt_contains: improve, turn: 2}
    reply:
      tool_calls:
        - name: edit
          arguments:
            {filePath: /workspace/src/greet.py, oldString: "'Hello %s' % name", newString: "f'Hello {name}'"}
  - when: {prompt_contains: improve, turn: 3}
    reply: {tool_calls: [{name: bash, arguments: {command: python -m pytest -q}}]}
  - when: {prompt_contains: improve, turn: 4}
    reply: {text: "Done. ${result.0} ${result.3}"}
"""


def build_task(hands, workspace: Workspace, prompt: str, **fields):
    told = {"agent": "build", "auth_scope": BUILD_SCOPE, "workspace": workspace, "input": TaskInput(prompt=prompt)}
    return hands.request(**{**told, **fields})


async def test_a_build_agent_asks_an_explorer_edits_tests_and_returns_a_patch(start_agents, workspace):
    hands, _ = await start_agents(FANS_OUT)
    request = build_task(hands, workspace, "improve greet")

    result = await hands.result(request)

    assert (result.status, result.errors) == (State.COMPLETED, ())
    assert "tests/test_greet.py:7 assert greet('a') == 'Hello a'" in result.output.text
    assert "2 passed" in result.output.text
    assert [file.path for file in result.patch.files] == ["src/greet.py"]
    assert [call.tool for call in result.tool_calls] == ["task", "read", "edit", "bash"]
    assert result.metrics.turns == 4
    assert result.metrics.cost_microusd > 0


async def test_a_child_has_a_narrowed_scope_a_share_of_the_budget_and_less_time(start_agents, workspace):
    hands, _ = await start_agents(FANS_OUT)
    parent = build_task(hands, workspace, "improve greet", budget=Budget(max_cost_microusd=1_000_000))

    await hands.result(parent)

    child_record = next(task for task in await hands.transport.tasks(trace_id=parent.trace_id) if task.parent_task_id)
    child = await hands.transport.request(child_record.task_id)
    assert child.parent_task_id == parent.task_id
    assert narrow(parent.auth_scope, child.auth_scope) == child.auth_scope
    assert not any(grant.startswith(("task:", "edit:")) for grant in child.auth_scope)
    assert 0 < child.budget.max_cost_microusd <= 500_000
    assert child.deadline_ms < parent.deadline_ms
    assert child_record.expires_at_ms < (await hands.transport.record(parent.task_id)).expires_at_ms


async def test_watchers_see_the_child_start_and_end_with_its_cost(start_agents, workspace):
    hands, _ = await start_agents(FANS_OUT)
    request = build_task(hands, workspace, "improve greet")
    await hands.result(request)

    told = {event.kind: event for event in await hands.events(request.trace_id)}

    assert told["child_spawned"].agent == "explore"
    assert (told["child_ended"].state, told["child_ended"].error) == (State.COMPLETED, "")
    assert told["child_ended"].cost_microusd > 0


EDITS_THROUGH_A_CHILD = """
rules:
  - when: {prompt_contains: change other, turn: 1}
    reply: {tool_calls: [{name: read, arguments: {filePath: src/other.py}}, {name: read, arguments: {filePath: note}}]}
  - when: {prompt_contains: change other, turn: 2}
    reply: {tool_calls: [{name: edit, arguments: {filePath: src/other.py, oldString: "X = 1", newString: "X = 2"}}]}
  - when: {prompt_contains: change other}
    reply: {text: "changed; the note says ${result.1}"}
  - when: {prompt_contains: delegate, turn: 1}
    reply: {tool_calls: [{name: write, arguments: {filePath: note, content: by the parent}}]}
  - when: {prompt_contains: delegate, turn: 2}
    reply:
      tool_calls:
        - {name: task, arguments: {description: other, prompt: change other, subagent_type: general}}
  - when: {prompt_contains: delegate, turn: 3}
    reply: {tool_calls: [{name: bash, arguments: {command: cat src/other.py}}]}
  - when: {prompt_contains: delegate}
    reply: {text: "${result.1} | ${result.2}"}
"""


async def test_what_a_child_changed_is_on_its_parents_workspace_and_starts_from_it(start_agents, workspace):
    hands, _ = await start_agents(EDITS_THROUGH_A_CHILD)

    result = await hands.result(build_task(hands, workspace, "delegate", auth_scope=("*:**",)))

    assert "by the parent" in result.output.text
    assert result.output.text.endswith("| X = 2")
    assert sorted(file.path for file in result.patch.files) == ["note", "src/other.py"]


TWO_CHILDREN_COLLIDE = """
rules:
  - when: {prompt_contains: make it, turn: 1}
    reply: {tool_calls: [{name: read, arguments: {filePath: src/other.py}}]}
  - when: {prompt_contains: make it 2, turn: 2}
    reply: {tool_calls: [{name: edit, arguments: {filePath: src/other.py, oldString: "X = 1", newString: "X = 2"}}]}
  - when: {prompt_contains: make it 3, turn: 2}
    reply: {tool_calls: [{name: edit, arguments: {filePath: src/other.py, oldString: "X = 1", newString: "X = 3"}}]}
  - when: {prompt_contains: make it}
    reply: {text: changed}
  - when: {prompt_contains: delegate, turn: 1}
    reply:
      tool_calls:
        - {name: task, arguments: {description: two, prompt: make it 2, subagent_type: general}}
        - {name: task, arguments: {description: three, prompt: make it 3, subagent_type: general}}
  - when: {prompt_contains: delegate}
    reply: {text: "${result.0} ${result.1}"}
"""


async def test_a_collision_with_a_child_is_told_with_its_paths(start_agents, workspace):
    hands, _ = await start_agents(TWO_CHILDREN_COLLIDE)

    result = await hands.result(build_task(hands, workspace, "delegate", auth_scope=("*:**",)))

    assert result.output.text.count("Error collision: the subagent's change of src/other.py collides") == 1
    assert [call.is_error for call in result.tool_calls].count(True) == 1
    assert [file.path for file in result.patch.files] == ["src/other.py"]


async def test_a_childs_error_is_an_error_result_with_its_code(start_agents, workspace):
    hands, _ = await start_agents(
        """
rules:
  - when: {prompt_contains: hopeless}
    fault: {status: 401}
  - when: {prompt_contains: delegate, turn: 1}
    reply: {tool_calls: [{name: task, arguments: {description: x, prompt: hopeless, subagent_type: explore}}]}
  - when: {prompt_contains: delegate}
    reply: {text: "${result.0}"}
"""
    )

    result = await hands.result(build_task(hands, workspace, "delegate"))

    assert result.status is State.COMPLETED
    assert 'state="error"' in result.output.text
    assert "model_auth" in result.output.text
    assert [call.is_error for call in result.tool_calls] == [True]


async def test_a_denied_call_is_told_to_the_model_and_the_loop_goes_on(start_agents, workspace):
    hands, _ = await start_agents(
        """
rules:
  - when: {turn: 1}
    reply:
      tool_calls:
        - {name: write, arguments: {filePath: docs/a.md, content: x}}
        - {name: read, arguments: {filePath: .env}}
        - {name: bash, arguments: {command: "eval rm -rf x"}}
        - {name: nothing, arguments: {}}
        - {name: read, arguments: {path: x}}
  - when: {turn: 2}
    reply: {text: "${result.0} / ${result.1} / ${result.2} / ${result.3} / ${result.4}"}
"""
    )

    result = await hands.result(build_task(hands, workspace, "try"))

    outside, secret, unparsed, unknown, malformed = result.output.text.split(" / ")
    assert "outside this task's scope" in outside
    assert "needs a person's approval" in secret
    assert "needs a person's approval" in unparsed
    assert "there is no tool 'nothing'" in unknown
    assert "wrong" in malformed
    assert result.patch is None


async def test_an_explorer_cannot_write_even_through_its_shell(start_agents, workspace):
    hands, _ = await start_agents(
        """
rules:
  - when: {turn: 1}
    reply: {tool_calls: [{name: bash, arguments: {command: touch /workspace/a}}]}
  - when: {turn: 2}
    reply: {text: "${result.0}"}
"""
    )
    scope = ("read:**", "bash:**")

    result = await hands.result(
        build_task(hands, workspace, "x", agent="explore", recipient="explore", auth_scope=scope)
    )

    assert "Read-only file system" in result.output.text
    assert result.patch is None


async def test_a_model_without_a_price_is_refused_under_a_cost_cap(start_agents, workspace):
    hands, server = await start_agents("rules: [{reply: {text: hello}}]", prices={})
    cap = Budget(max_cost_microusd=1000)

    capped = await hands.result(build_task(hands, workspace, "x", model="anthropic/unheard-of", budget=cap))
    uncapped = await hands.result(build_task(hands, workspace, "x", budget=cap))  # its server is on this machine

    assert capped.errors[0].code is ErrorCode.BAD_INPUT
    assert "price" in capped.errors[0].message
    assert "MUSTER_PRICES" in capped.errors[0].hint
    assert uncapped.status is State.COMPLETED
    assert server.log.requests == 1


async def test_a_task_goes_on_in_an_earlier_session_with_its_changes(start_agents, workspace):
    hands, _ = await start_agents(
        """
rules:
  - when: {user_contains: second}
    reply: {text: "I remember: ${result.0}"}
  - when: {turn: 1}
    reply: {tool_calls: [{name: write, arguments: {filePath: src/new.py, content: "Y = 1\\n"}}]}
  - when: {turn: 2}
    reply: {text: first done}
"""
    )
    first = await hands.result(build_task(hands, workspace, "first"))

    second = await hands.result(build_task(hands, workspace, "second", resume_token=first.resume_token))

    assert second.output.text == "I remember: Created /workspace/src/new.py."
    assert [file.path for file in second.patch.files] == ["src/new.py"]
    assert second.metrics.turns == 1


async def test_another_worker_goes_on_where_one_was_stopped(start_agents, workspace):
    hands, server = await start_agents(
        """
rules:
  - when: {turn: 1}
    reply: {tool_calls: [{name: write, arguments: {filePath: src/new.py, content: "Y = 1\\n"}}]}
  - when: {turn: 2}
    times: 1
    reply: {tool_calls: [{name: bash, arguments: {command: sleep 600}}]}
  - when: {turn: 2}
    reply: {tool_calls: [{name: bash, arguments: {command: cat src/new.py}}]}
  - when: {turn: 3}
    reply: {text: "${result.1}"}
"""
    )
    request = build_task(hands, workspace, "x")
    await hands.transport.submit([request])
    async with asyncio.timeout(60):
        async for entry in hands.transport.follow(request.trace_id):
            events = entry.message.events if isinstance(entry.message, TaskProgress) else ()
            if any(event.kind == "tool_call" and event.title == "sleep 600" for event in events):
                break
    await hands.stop()
    await start_agents("rules: []", model_base_url=server.base_url)

    result = await hands.ended(request.task_id)

    assert (result.output.text, result.attempt) == ("Y = 1", 2)
    assert [file.path for file in result.patch.files] == ["src/new.py"]
    assert [call.tool for call in result.tool_calls] == ["write", "bash"]
    assert (result.metrics.turns, server.log.requests) == (3, 4)


async def test_a_child_that_asks_for_more_than_its_parent_has_is_not_accepted(start_agents, workspace):
    hands, _ = await start_agents("rules: [{reply: {text: hi}}]")
    parent = build_task(hands, workspace, "x", auth_scope=("read:src/**",), recipient="orchestrator")
    await hands.transport.submit([parent])
    wide = build_task(hands, workspace, "y", parent_task_id=parent.task_id, trace_id=parent.trace_id)

    with pytest.raises(Exception, match="scope"):
        await hands.transport.submit([wide])


async def test_tokens_and_cost_are_counted_by_model(start_agents, workspace):
    hands, _ = await start_agents(FANS_OUT)
    result = await hands.result(build_task(hands, workspace, "improve greet"))

    def value(name: str, **labels: str) -> float:
        return hands.metrics.registry.get_sample_value(name, labels) or 0

    ledger_usd = value("muster_llm_cost_usd_total", model=MODEL)
    assert value("muster_llm_tokens_total", model=MODEL, type="input") > 0
    assert ledger_usd * 1_000_000 > result.metrics.cost_microusd  # the child's turns count here, too
