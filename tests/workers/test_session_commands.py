"""`/undo`, `/redo` and the like as a worker meets them: as a task's prompt, and in the inbox of a session under way."""

from __future__ import annotations

import asyncio
import subprocess

import pytest

from envelope.errors import ErrorCode
from envelope.events import WarningRaised
from envelope.lifecycle import State
from envelope.messages import TaskInput, TaskProgress
from transport.errors import Busy
from workers.commands.catalogue import catalogue

pytestmark = [pytest.mark.redis, pytest.mark.docker]

SCRIPT = """
rules:
  - when: {system_contains: You write the notes}
    reply: {text: notes}
  - when: {user_contains: write it, turn: 1}
    reply: {tool_calls: [{name: write, arguments: {filePath: new.txt, content: hello}}]}
  - when: {user_contains: write it}
    reply: {text: "/workspace/new.txt is written"}
  - when: {user_contains: look, turn: 1}
    reply: {tool_calls: [{name: bash, arguments: {command: "ls new.txt || echo gone"}}]}
  - when: {user_contains: look}
    reply: {text: "It said: ${result.0}"}
  - when: {user_contains: linger, turn: 1}
    reply: {tool_calls: [{name: bash, arguments: {command: "mkfifo /tmp/go && cat /tmp/go"}}]}
  - reply: {text: fine}
"""


@pytest.fixture
async def start(start_agents, workspace):
    hands, server = await start_agents(SCRIPT)

    def asks(prompt: str, **fields):
        told = {"agent": "build", "auth_scope": ("edit:**", "bash:**"), "workspace": workspace}
        return hands.request(**told, input=TaskInput(prompt=prompt), **fields)

    return hands, server, asks


async def test_undo_takes_the_only_prompt_and_its_work_back_and_redo_brings_them_again(start):
    hands, server, asks = start
    first = await hands.result(asks("write it"))

    undone = await hands.result(asks("/undo", resume_token=first.resume_token))
    redone = await hands.result(asks("/redo", resume_token=first.resume_token))
    await hands.result(asks("/undo", resume_token=first.resume_token))
    asked = server.log.requests
    looked = await hands.result(asks("look", resume_token=first.resume_token))
    late = await hands.result(asks("/redo", resume_token=first.resume_token))

    assert (undone.status, undone.patch) == (State.COMPLETED, None), undone.errors
    assert undone.output.text == "Taken back: write it\n\nThe session stands before its first prompt."
    assert redone.patch is not None and [file.path for file in redone.patch.files] == ["new.txt"]
    assert asked == 2  # neither of them asks a model
    assert looked.output.text.startswith("It said: ls:")
    assert "write it" not in str(server.log.bodies[-1]["messages"])
    assert [error.code for error in late.errors] == [ErrorCode.BAD_INPUT]
    assert "no revert to take back" in late.errors[0].message


async def test_an_answer_that_begins_like_a_command_is_none(start):
    hands, _, asks = start
    first = await hands.result(asks("write it"))

    compacted = await hands.result(asks("/compact", resume_token=first.resume_token))

    assert (compacted.status, compacted.output.text) == (State.COMPLETED, "/workspace/new.txt is written")


async def test_a_session_under_way_is_neither_taken_back_nor_told_of_it(start, containers_of_task):
    hands, server, asks = start
    request = asks("linger")
    await hands.transport.submit([request])
    await hands.until(request.trace_id, lambda told: any(e.kind == "tool_call" for e in told.events))

    with pytest.raises(Busy):
        await hands.transport.submit([asks("/undo", resume_token=request.task_id)])
    await hands.transport.prompt(request.task_id, "/undo", by="test")
    await hands.transport.prompt(request.task_id, "/compact", by="test")
    say = ("sh", "-c", "echo go > /tmp/go")
    while not any(  # the call has begun, and its sandbox opens
        subprocess.run(["docker", "exec", container, *say], stderr=subprocess.DEVNULL).returncode == 0
        for container in containers_of_task(request.task_id)
    ):
        await asyncio.sleep(0.05)
    result = await hands.ended(request.task_id)

    events = [entry.message async for entry in hands.transport.follow(request.trace_id)]
    told = [event for message in events if isinstance(message, TaskProgress) for event in message.events]
    assert result.status is State.COMPLETED
    assert [e.message for e in told if isinstance(e, WarningRaised)] == ["/undo was not done: the session is under way"]
    assert "compaction" in [e.kind for e in told]
    assert not any(
        "/undo" in str(body["messages"]) or "/compact" in str(body["messages"]) for body in server.log.bodies
    )


def test_no_file_takes_the_name_of_a_command_of_sessions():
    found = catalogue(repository={".muster/commands/undo.md": "Delete all."}, users={})

    assert found.faults == {
        ".muster/commands/undo.md": "/undo is a command of Muster's own; give the file another name"
    }
    assert {card.name for card in found.cards() if card.of_session} == {"undo", "redo", "compact", "share"}
    assert "/undo  Take back the last prompt" in found.listing()
