"""An answer stands for another fan-out only where that asks the same, of the same code, for as trusted a caller."""

from __future__ import annotations

import json
from typing import Any

import pytest

from envelope.agents import AgentCard
from envelope.lifecycle import State
from envelope.messages import Output, TaskRequest, TaskResult, Workspace
from orchestrator.fanout.items import items_of_lines
from orchestrator.fanout.report import ANSWERS_NAME
from orchestrator.fanout.spec import fanout_request
from transport.consumer import Delivery

# all its grants are within what a read-only caller has, so that its scope tells nobody apart
REVIEW = AgentCard(name="review", mode="subagent", pool="explore", auth_scope=("read:**", "grep:**"))
BASE = "a" * 40
OURS: dict[str, Any] = {"url": "https://git.example.com/ours.git", "base": BASE}


class Desk:
    """Asks as a person, or as a stranger who may only look. Answers tell how many tasks there were before."""

    def __init__(self, stage):
        self.stage = stage
        self.seen: list[TaskRequest] = []

    async def handle(self, delivery: Delivery) -> TaskResult:
        task = delivery.request
        self.seen.append(task)
        said = {"trace_id": task.trace_id, "task_id": task.task_id, "attempt": delivery.claim.lease.attempt}
        return TaskResult(**said, status=State.COMPLETED, output=Output(text=str(len(self.seen))))

    async def ask(self, workspace: Workspace | None, *, by_stranger: bool = False, lines=("src/a.py",)) -> list[str]:
        muster = self.stage.muster
        request = await fanout_request(
            "Is {item} safe?", items_of_lines(lines, name="files"), agent=REVIEW,
            blobs=self.stage.transport.blobs, settings=muster.settings, workspace=workspace,
        )  # fmt: skip
        async with self.stage.orchestrator(), self.stage.serving("explore", self.handle):
            handle = await (muster.read_only() if by_stranger else muster).submit_repeatable(request)
            [result] = await muster.gather([handle])
        told = (await muster.attachment(result, ANSWERS_NAME)).splitlines()
        return [json.loads(line)["text"] for line in told]


@pytest.fixture
def desk(any_stage) -> Desk:
    return Desk(any_stage)


@pytest.mark.parametrize("by_stranger", [True, False], ids=["by a stranger", "by a person"])
@pytest.mark.parametrize(
    "other",
    [
        {"changes": f"sha256:{'d' * 64}"},
        {"url": "https://evil.example.com/ours.git"},
        {"subpath": "src"},
        {"trusted": f"sha256:{'e' * 64}"},
    ],
    ids=lambda other: next(iter(other)),
)
async def test_what_was_asked_of_other_code_answers_nothing(desk, other, by_stranger):
    await desk.ask(Workspace(**{**OURS, **other}), by_stranger=by_stranger)

    assert await desk.ask(Workspace(**OURS)) == ["2"]


async def test_a_branch_of_another_repository_is_no_branch_of_ours(desk):
    await desk.ask(Workspace(url="https://evil.example.com/x.git", base="main", public=True), by_stranger=True)

    assert await desk.ask(Workspace(**{**OURS, "base": "main"}, public=True)) == ["2"]


@pytest.mark.parametrize("workspace", [None, Workspace(**OURS)], ids=["no code", "a commit"])
async def test_what_a_stranger_had_asked_stands_for_no_person_nor_the_other_way_round(desk, workspace):
    """Word for word the same: he may have talked to the tasks meanwhile."""
    assert await desk.ask(workspace, by_stranger=True) == ["1"]
    assert await desk.ask(workspace) == ["2"]
    # items of others of his own are his
    assert await desk.ask(workspace, by_stranger=True, lines=("src/a.py", "src/b.py")) == ["1", "3"]
    assert [task.read_only for task in desk.seen] == [True, False, True]


async def test_the_same_items_of_the_same_commit_are_asked_once(desk):
    assert await desk.ask(Workspace(**OURS)) == ["1"]
    assert await desk.ask(Workspace(**OURS)) == ["1"]
    assert await desk.ask(Workspace(**OURS), lines=("src/a.py", "src/b.py")) == ["1", "2"]
