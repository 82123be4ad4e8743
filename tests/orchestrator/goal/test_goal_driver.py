"""Goals: the agent's answer, the gate around it, and the words for what was proved."""

from __future__ import annotations

import pytest

from envelope.agents import AgentCard
from envelope.errors import ErrorCode
from envelope.lifecycle import State
from envelope.messages import TaskRequest, Workspace
from orchestrator.submit import goal_request
from repo.mirror import mirror_of

BUILD = AgentCard(name="build", mode="primary", pool="build", auth_scope=("read:**", "edit:**", "bash:**"))
FILES = {"a.py": "old\n", "t.py": "assert\nassert\n"}


def renew(_task: TaskRequest, files: dict[str, str]) -> None:
    files["a.py"] = "new\n"


@pytest.fixture
def goal(stage):
    async def run(*, gate: tuple[str, ...] = ("run-tests",), files: dict[str, str] = FILES):
        given = await stage.repository(files)
        workspace = Workspace(bundle=given.bundle, base=given.base)
        settings = stage.muster.settings
        return await stage.run(
            goal_request("Make it new", agent=BUILD, settings=settings, workspace=workspace, gate=gate)
        )

    stage.builders.edit = renew
    return run


async def test_a_change_that_passes_the_gate_is_verified(goal):
    result = await goal()

    assert (result.status, result.errors) == (State.COMPLETED, ())
    assert result.output.structured["verified"] is True
    assert (
        result.output.structured["gate"]["before"]["tests"] == result.output.structured["gate"]["after"]["tests"] == 2
    )
    assert [file.path for file in result.patch.files] == ["a.py"]


async def test_a_change_without_a_gate_is_done_and_not_verified(goal):
    result = await goal(gate=())

    assert result.status is State.COMPLETED
    assert (result.output.structured["verified"], result.output.structured["reason"]) == (
        False,
        "no gate is configured (muster init guesses one)",
    )


async def test_the_change_comes_as_a_commit_in_a_bundle(stage, goal, tmp_path):
    result = await goal()

    file = tmp_path / "change.bundle"
    file.write_bytes(await stage.muster.attachment(result, "change.bundle"))
    commit = result.output.structured["commit"]
    assert await (await mirror_of(tmp_path / "elsewhere", bundle=file, commit=commit)).has(commit)


async def test_a_change_that_breaks_the_tests_is_not_acceptable(stage, goal):
    stage.builders.edit = lambda _task, files: files.update({"a.py": "fail\n"})

    result = await goal()

    assert [error.code for error in result.errors] == [ErrorCode.GATE_FAILED]
    assert result.patch is not None
    assert result.output.structured["verified"] is False


async def test_an_agent_that_changes_nothing_has_verified_nothing(stage, goal):
    stage.builders.edit = lambda _task, _files: None

    result = await goal()

    assert result.status is State.COMPLETED
    assert result.output.structured["verified"] is False
    assert "nothing was changed" in result.output.structured["reason"]


async def test_an_agent_that_fails_ends_the_goal_with_its_error(stage, goal):
    def give_up(_task, _files):
        raise stage.builders.fails("I cannot")

    stage.builders.edit = give_up

    result = await goal()

    assert [(error.code, error.message) for error in result.errors] == [(ErrorCode.RECIPE_FAILED, "I cannot")]


async def test_the_agent_gets_the_goal_and_no_more_than_its_own_scope(stage, goal):
    await goal()

    [agent] = stage.builders.shards_started()
    assert agent.input.prompt == "Make it new"
    assert agent.auth_scope == BUILD.auth_scope
    assert agent.budget.max_cost_microusd == stage.muster.settings.budget_microusd


async def test_a_worker_that_lies_about_the_tested_tree_is_caught(stage, goal):
    real = stage.builders._verify

    async def lie(task):
        fields = await real(task)
        fields["output"].structured["tree"] = "0" * 40
        return fields

    stage.builders._verify = lie

    result = await goal()

    assert [error.code for error in result.errors] == [ErrorCode.GATE_FAILED]
    assert "the gate tested the tree 000000000000" in result.errors[0].message
