"""Whatever is denied to an agent is denied to its subagents, whatever their own rules say, and on any worker."""

from __future__ import annotations

import pytest

from envelope.agent_params import AgentParams
from envelope.lifecycle import State
from envelope.messages import TaskInput
from orchestrator.prompting import going_on, undoing
from workers.agents.registry import parse_agent
from workers.subagents.inheritance import guard_of
from workers.tools.base import Target

pytestmark = [pytest.mark.redis, pytest.mark.docker]

# nothing is denied by it: what is, is so by the agents
EVERYTHING = ("*:**",)
CAREFUL = """---
description: is careful
mode: primary
pool: build
permission:
  bash: {"*": allow, "rm *": deny, "rm -i *": allow}
---
You are careful."""
# Its own rules allow all that its caller's deny.
BOLD = "---\ndescription: is bold\nmode: all\npool: general\npermission: {bash: allow, edit: allow}\n---\nYou are bold."
AGENTS = {"careful": CAREFUL, "bold": BOLD}
BOLD_AGENT = parse_agent("bold", BOLD)


def goal(hands, agent: str, workspace=None, **fields):
    told = {"agent": agent, "auth_scope": EVERYTHING, "workspace": workspace, "input": TaskInput(prompt="lead")}
    return hands.request(**{**told, **fields})


def asks(agent: str, *, at: str = "lead", does: str = "work") -> str:
    return (
        f"  - when: {{prompt_contains: {at}, turn: 1}}\n"
        f"    reply: {{tool_calls: [{{name: task, arguments: "
        f"{{description: x, prompt: {does}, subagent_type: {agent}}}}}]}}\n"
        f'  - {{when: {{prompt_contains: {at}}}, reply: {{text: "${{result.0}}"}}}}\n'
    )


def works(*calls: str) -> str:
    answers = " / ".join(f"${{result.{n}}}" for n in range(len(calls)))
    return (
        f"rules:\n  - {{when: {{prompt_contains: work, turn: 1}}, reply: {{tool_calls: [{', '.join(calls)}]}}}}\n"
        f'  - {{when: {{prompt_contains: work}}, reply: {{text: "{answers}"}}}}\n'
    )


REMOVES = works(
    "{name: bash, arguments: {command: rm src/other.py}}",
    "{name: bash, arguments: {command: rm -i src/none.py}}",
    "{name: bash, arguments: {command: ls src}}",
)
WRITES = works(
    "{name: write, arguments: {filePath: src/new.py, content: X}}",
    "{name: bash, arguments: {command: touch src/new.py}}",
)


async def test_a_rule_that_denies_holds_for_subagents(start_agents, workspace):
    hands, _ = await start_agents(REMOVES + asks("bold"), agents=AGENTS)

    result = await hands.result(goal(hands, "careful", workspace))

    removed, taken_back, listed = result.output.text.split(" / ")
    assert "bash 'rm src/other.py' is denied to the agent that started this task" in removed
    assert "cannot remove" in taken_back or "No such file" in taken_back  # what the rules take back from a deny
    assert "other.py" in listed and result.patch is None


async def test_it_holds_for_the_subagents_of_subagents(start_agents, workspace):
    script = REMOVES + asks("bold", at="pass on") + asks("bold", does="pass on")
    hands, _ = await start_agents(script, subagent_depth=2, agents=AGENTS)
    request = goal(hands, "careful", workspace)

    result = await hands.result(request)

    tasks = await hands.transport.tasks(trace_id=request.trace_id)
    assert [task.agent for task in tasks] == ["careful", "bold", "bold"]
    assert "is denied to the agent that started this task" in result.output.text


async def test_plans_general_cannot_write_even_where_the_scope_would_let_it(start_agents, workspace):
    hands, _ = await start_agents(WRITES + asks("general"), agents=AGENTS)

    result = await hands.result(goal(hands, "plan", workspace, recipient="general"))

    written, touched = result.output.text.split(" / ")
    assert result.status is State.COMPLETED and result.patch is None
    assert "there is no tool 'write'" in written
    assert "Read-only file system" in touched


async def test_plans_own_shell_cannot_write_even_where_the_scope_would_let_it(start_agents, workspace):
    hands, _ = await start_agents(WRITES, agents=AGENTS)

    result = await hands.result(goal(hands, "plan", workspace, recipient="general", input=TaskInput(prompt="work")))

    assert "Read-only file system" in result.output.text and result.patch is None


async def test_the_denies_travel_with_the_request(start_agents, workspace):
    """So the worker that runs the subagent need not know its caller's file, or may have another of that name."""
    hands, _ = await start_agents(REMOVES + asks("bold"), agents=AGENTS)
    request = goal(hands, "careful", workspace)
    await hands.result(request)
    [_, record] = await hands.transport.tasks(trace_id=request.trace_id)

    child = await hands.transport.request(record.task_id)

    denies = [[["bash", "rm *", True], ["bash", "rm -i *", False]]]
    assert child.input.params == {"subagent_depth": 0, "inherited_denies": denies}


async def test_who_goes_on_with_a_subagents_session_goes_on_with_its_denies(start_agents, workspace):
    hands, _ = await start_agents(REMOVES + asks("bold"), agents=AGENTS)
    request = goal(hands, "careful", workspace)
    await hands.result(request)
    [_, record] = await hands.transport.tasks(trace_id=request.trace_id)
    child = await hands.transport.request(record.task_id)

    undone = undoing(child, AgentParams(revert_to=1))
    told = [going_on(child, "and now?"), undone, going_on(undone, "and now?")]

    assert all(guard_of(one, BOLD_AGENT).check([Target("bash", "rm x")]) is not None for one in told)
