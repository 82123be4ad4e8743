"""Copies of sessions, made by a real worker: what is said to one is not heard in the other."""

from __future__ import annotations

import json

import pytest

from envelope.errors import ErrorCode
from envelope.lifecycle import State
from envelope.messages import TaskInput
from orchestrator.client import Muster
from orchestrator.settings import Settings

pytestmark = [pytest.mark.redis, pytest.mark.docker]

SCRIPT = """
rules:
  - when: {user_contains: write it, turn: 1}
    reply: {tool_calls: [{name: write, arguments: {filePath: new.txt, content: hello}}]}
  - when: {user_contains: write it}
    reply: {text: "/workspace/new.txt is written"}
  - when: {user_contains: look, turn: 1}
    reply: {tool_calls: [{name: bash, arguments: {command: "ls new.txt || echo gone"}}]}
  - when: {user_contains: look}
    reply: {text: "It said: ${result.0}"}
  - reply: {text: fine}
"""


@pytest.fixture
async def had(start_agents, workspace, tmp_path):
    """A session of two turns, and the client."""
    hands, server = await start_agents(SCRIPT)
    muster = Muster(hands.transport, Settings(state_dir=tmp_path))
    scope = ("edit:**", "bash:**")
    request = hands.request(agent="build", auth_scope=scope, workspace=workspace, input=TaskInput(prompt="write it"))
    assert (await hands.result(request)).status is State.COMPLETED
    return muster, server, request.task_id


async def test_a_fork_has_the_work_and_the_words_up_to_its_turn_and_leaves_the_old_one_alone(had):
    muster, server, task_id = had
    before = await muster.export(task_id, sanitize=False)
    asked = server.log.requests

    whole = await muster.fork(task_id)
    nothing = await muster.fork(task_id, turn=0)
    results = await muster.gather([whole, nothing])
    looked = [await muster.prompt(handle.task_id, "look") for handle in (whole, nothing)]
    answers = await muster.gather(looked)

    assert [result.status for result in results] == [State.COMPLETED] * 2, results
    assert results[0].output.text.startswith("A copy of the session stands where turn 2 of 2 ended")
    assert [file.path for file in results[0].patch.files] == ["new.txt"]
    assert results[1].patch is None
    assert "new.txt" in answers[0].output.text  # the copy knows what it has done: it needs no second look
    assert "gone" in answers[1].output.text
    assert [(await muster.request(handle.task_id)).resume_token for handle in looked] == [
        whole.task_id,
        nothing.task_id,
    ]
    assert server.log.requests == asked + 3  # none for the copies
    assert await muster.export(task_id, sanitize=False) == before
    listed = await muster.sessions()
    assert [row.session_id for row in listed.sessions] == [nothing.task_id, whole.task_id, task_id]


async def test_what_cannot_be_forked_says_so(had):
    muster, _, task_id = had

    [result] = await muster.gather([await muster.fork(task_id, turn=9)])
    undone = await muster.fork(task_id)
    await muster.gather([undone])
    [redo] = await muster.gather([await muster.prompt(undone.task_id, "/redo")])

    assert (result.status, result.errors[0].code) == (State.ERROR, ErrorCode.BAD_INPUT)
    assert "the session has no turn 9" in result.errors[0].message
    assert "no revert to take back" in redo.errors[0].message  # a copy has no past of its own


async def test_a_session_is_shared_without_its_texts_and_put_away(had):
    muster, _, task_id = had

    shared = await muster.export(task_id, sanitize=True)
    await muster.archive(task_id)
    rows = [(await muster.sessions(archived=archived)).sessions for archived in (False, True)]

    assert "write it" not in shared and "new.txt" not in shared
    assert [turn["turn"] for turn in json.loads(shared)["turns"]] == [1, 2]
    assert [[row.session_id for row in each] for each in rows] == [[], [task_id]]
    assert (await muster.session(task_id)).archived
