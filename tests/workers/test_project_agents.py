"""A repository's own agents in a real worker: found, warned about, narrowed until they are trusted, published."""

from __future__ import annotations

import pytest

from envelope.errors import ErrorCode
from envelope.events import WarningRaised
from envelope.lifecycle import State
from envelope.messages import TaskInput, TaskProgress, Workspace
from repo.project import project_settings
from transport.blobs.owners import acting_for

pytestmark = [pytest.mark.redis, pytest.mark.docker]

MODEL = "openai/scripted"
PRICES = {MODEL: {"input": 1_000_000, "output": 2_000_000}}
SCOPE = ("read:**", "list:**", "glob:**", "grep:**", "bash:**", "edit:**", "task:**")

SPEAKS = """
rules:
  - when: {system_contains: You are the poet of this project, turn: 1}
    reply: {tool_calls: [{name: read, arguments: {filePath: /workspace/.env}}]}
  - when: {system_contains: You are the poet of this project}
    reply: {text: "A poem. ${result.0}"}
  - when: {system_contains: You are the muse}
    reply: {text: "Sing."}
  - when: {turn: 1}
    reply:
      tool_calls: [{name: task, arguments: {description: ask, prompt: inspire, subagent_type: muse}}]
  - reply: {text: "Asked. ${result.0}"}
"""
POET = (
    "---\ndescription: Writes poems.\nmode: primary\nmodel: costly/model\n"
    "permission: {read: allow, bash: {'*': allow}}\n---\nYou are the poet of this project.\n"
)
FILES = {
    ".muster/agents/poet.md": POET,
    ".opencode/agent/muse.md": "---\ndescription: Inspires.\nmode: subagent\n---\nYou are the muse.\n",
    ".claude/agents/broken.md": "---\ndescription: d\nmode: bad\n---\nNever.\n",
    ".env": "TOKEN=secret-word\n",
}


@pytest.fixture
async def at_work(start_agents, repository, pack):
    """A worker, and a repository that brings agents."""
    hands, _ = await start_agents(SPEAKS, prices=PRICES)
    workspace = await pack(FILES)
    settings = await project_settings(repository / ".git", workspace.base)
    return hands, workspace, settings.digest


def task(hands, workspace: Workspace, agent: str):
    prompt = TaskInput(prompt="Write.")
    return hands.request(agent=agent, auth_scope=SCOPE, workspace=workspace, input=prompt)


async def warnings_of(hands, trace_id: str, task_id: str) -> list[str]:
    return [
        event.message
        async for entry in hands.transport.follow(trace_id, wait=False)
        if isinstance(entry.message, TaskProgress) and entry.message.task_id == task_id
        for event in entry.message.events
        if isinstance(event, WarningRaised)
    ]


async def test_an_untrusted_repositorys_agent_works_and_gains_nothing(at_work):
    hands, workspace, _ = at_work
    request = task(hands, workspace, "poet")

    result = await hands.result(request)

    assert (result.status, result.errors) == (State.COMPLETED, ())
    assert result.output.text.startswith("A poem. not allowed: read '.env'")
    assert "secret-word" not in result.output.text
    told = await warnings_of(hands, request.trace_id, request.task_id)
    assert any("poet.md: is not trusted" in warning and "costly/model" in warning for warning in told)
    assert any("broken.md: agent 'broken': mode: " in warning for warning in told)


async def test_a_trusted_one_is_followed_and_another_digest_is_no_trust(at_work):
    hands, workspace, digest = at_work
    other = workspace.model_copy(update={"trusted": digest[:-1] + ("0" if digest[-1] != "0" else "1")})
    doubted = await hands.result(task(hands, other, "poet"))
    trusted = task(hands, workspace.model_copy(update={"trusted": digest}), "poet")

    result = await hands.result(trusted.model_copy(update={"model": MODEL}))

    assert doubted.output.text.startswith("A poem. not allowed")
    assert "TOKEN=secret-word" in result.output.text


async def test_the_model_of_an_agent_counts_only_when_it_is_trusted(at_work):
    hands, workspace, digest = at_work

    result = await hands.result(task(hands, workspace.model_copy(update={"trusted": digest}), "poet"))

    assert "costly/model" in result.errors[0].message


async def test_agents_of_the_repository_are_subagents_of_others(at_work):
    hands, workspace, _ = at_work
    request = task(hands, workspace, "build")

    result = await hands.result(request)

    assert "Sing." in result.output.text
    tasks = await hands.transport.tasks(trace_id=request.trace_id)
    [muse] = [record for record in tasks if record.agent == "muse"]
    assert await warnings_of(hands, request.trace_id, muse.task_id) == []  # its caller has told them


@pytest.mark.parametrize(
    ("agent", "message", "hint"),
    [("broken", "agent 'broken': mode: ", "known values: primary"), ("poett", "there is no agent 'poett'", "poet")],
)
async def test_who_asks_for_an_agent_that_cannot_be_used_is_told_why(at_work, agent, message, hint):
    hands, workspace, _ = at_work

    result = await hands.result(task(hands, workspace, agent))

    assert result.errors[0].code is ErrorCode.BAD_INPUT
    assert message in result.errors[0].message
    assert hint in result.errors[0].hint


async def test_who_names_a_commit_and_has_not_its_repository_hears_nothing_of_its_agents(at_work):
    hands, workspace, _ = at_work
    assert (await hands.result(task(hands, workspace, "poet"))).status is State.COMPLETED
    with acting_for("ben"):
        nothing = await hands.transport.blobs.put(b"no bundle at all")
    theirs = Workspace(bundle=nothing, base=workspace.base)
    for agent in ("poet", "nobody-of-this-name"):
        request = task(hands, theirs, agent).model_copy(update={"tenant": "ben"})

        result = await hands.result(request)

        told = f"{result.errors} {await warnings_of(hands, request.trace_id, request.task_id)}"
        assert result.errors and result.status is not State.COMPLETED
        assert "muse" not in told and "poet.md" not in told and "broken.md" not in told, told
    assert [card.tenant for card in hands.runner.agents.cards()] == ["default"]


async def test_a_workers_card_tells_of_the_repositorys_agents_once_it_has_seen_them(at_work):
    hands, workspace, digest = at_work
    assert hands.runner.agents.cards() == ()

    await hands.result(task(hands, workspace.model_copy(update={"trusted": digest}), "muse"))

    [project] = hands.runner.agents.cards()
    assert (project.tenant, project.commit) == ("default", workspace.base)
    assert {card.name: (card.mode, card.model) for card in project.agents} == {
        "muse": ("subagent", ""),
        "poet": ("primary", ""),  # as a stranger's
    }
