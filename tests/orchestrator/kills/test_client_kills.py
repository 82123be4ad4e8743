"""Whoever calls the fleet is killed at each of its writes, and calls again: what it wanted is there, and there once."""

from __future__ import annotations

import subprocess

import pytest

from envelope.asks import AskTerms, read_reply
from envelope.events import AskOpened
from envelope.lifecycle import State
from envelope.messages import ErrorInfo, TaskProgress, TaskResult
from orchestrator.approvals import approved_in
from orchestrator.submit import task_request
from transport.base import Wait

pytestmark = [pytest.mark.redis, pytest.mark.chaos, pytest.mark.asyncio(loop_scope="module")]

FIELDS = {"agent": "build", "pool": "build", "auth_scope": ("read:**",), "deadline_ms": 600_000}
LOG = AskOpened(ask_id="ask_aaaa0001", permission="bash", patterns=("git log",), always=("bash:git log *",))
OLD_LOG = AskOpened(ask_id="ask_aaaa0002", permission="bash", patterns=("git log -9",), always=("bash:git log *",))
PUSH = AskOpened(ask_id="ask_aaaa0003", permission="bash", patterns=("git push",), always=("bash:git push *",))


async def claimed(scene):
    [claim] = await scene.transport.claim("build", "w", slots=1, wait_s=5)
    return claim.lease, {name: getattr(claim.lease, name) for name in ("trace_id", "task_id", "attempt")}


async def test_what_was_submitted_under_keys_is_there_once(stages):
    tasks = [{"agent": "build", "deadline_ms": 60_000, "prompt": "x", "idempotency_key": f"k{n}"} for n in range(6)]

    async def prepare(scene):
        return {"tasks": tasks}

    async def look(scene):
        found = [await scene.muster.request(task.task_id) for task in await scene.muster.tasks()]
        return sorted(request.idempotency_key for request in found), (await scene.muster.pools())[0].ready

    assert await stages.deaths("submit", prepare, look) >= 2  # in several cells


@pytest.fixture
def project(stages):
    root = stages.folder / "project"
    root.mkdir()
    (root / "a.py").write_text("x = 1\n")
    identity = ("-c", "user.name=tester", "-c", "user.email=tester@localhost")
    for words in (["init", "-q"], ["add", "a.py"], ["commit", "-qm", "first"]):
        subprocess.run(["git", *identity, "-C", str(root), *words], check=True)
    return root


async def test_a_goal_under_a_key_is_one_however_often_its_command_is_killed(stages, project):
    words = ["run", "tidy up", "--repo", str(project), "--detach", "--key", "nightly"]

    async def prepare(scene):
        return {"words": words}

    async def look(scene):
        [goal] = await scene.muster.tasks()
        assert goal.task_id in stages.mortals.log.read_text()
        workspace = (await scene.muster.request(goal.task_id)).workspace
        return goal.intent, goal.state, len(await scene.transport.blobs.get(workspace.bundle)) > 0

    assert await stages.deaths("muster", prepare, look) >= 2


@pytest.mark.parametrize("choice", ["always", "reject"])
async def test_an_ask_is_answered_once_and_all_that_goes_with_it(stages, choice):
    async def prepare(scene):
        request = task_request(**FIELDS, asks=AskTerms(project="/home/me/project"))
        await scene.transport.submit([request])
        lease, names = await claimed(scene)
        asks = (LOG, OLD_LOG, PUSH)
        said = TaskProgress(**names, seq=0, at_ms=1, status=State.RUNNING, events=asks)
        await scene.transport.emit(lease, said)
        assert await scene.transport.park(lease, Wait(asks=frozenset(ask.ask_id for ask in asks)))
        scene.kept["task"] = request.task_id
        return {"words": ["ask", "answer", LOG.ask_id, choice]}

    async def look(scene):
        task_id = scene.kept["task"]
        answers = await scene.transport.answers(task_id)
        assert await scene.decisions() == [("answer", task_id)] * len(answers)
        return (
            {ask: read_reply(answer.text).choice for ask, answer in answers.items()},
            (await scene.muster.record(task_id)).state,
            approved_in(stages.folder, "/home/me/project"),
        )

    assert await stages.deaths("muster", prepare, look, acts_outside=True) >= 4


async def test_a_dead_letter_is_requeued_once(stages):
    async def prepare(scene):
        request = task_request(**FIELDS)
        await scene.transport.submit([request])
        lease, names = await claimed(scene)
        error = ErrorInfo.of("poison", "it took them all down")
        result = TaskResult(**names, status=State.ERROR, errors=(error,))
        await scene.transport.finish(lease, result, dead="poison")
        scene.kept["task"] = request.task_id
        return {"task_id": request.task_id}

    async def look(scene):
        requests = [await scene.muster.request(task.task_id) for task in await scene.muster.tasks()]
        again = [request for request in requests if request.retry_of == scene.kept["task"]]
        # each of two calls may stand there as what it is: somebody's decision
        decisions = set(await scene.decisions())
        return len(requests), len(again), await scene.muster.dead_letters(), {what for what, _ in decisions}

    assert await stages.deaths("requeue", prepare, look) >= 3
