"""Recorded tasks that waited for people, played again: nobody is asked."""

from __future__ import annotations

import pytest

from envelope.asks import AskTerms, Reply
from envelope.errors import ErrorCode
from envelope.lifecycle import State
from envelope.messages import TaskInput
from orchestrator.asks import give, open_asks
from workers.agents.registry import builtin, parse_agent
from workers.recording.replay import find_cassette, replay

pytestmark = [pytest.mark.redis, pytest.mark.docker]

ASKER = """---
description: asks
mode: all
pool: build
permission: {bash: ask}
---
You ask.
"""
SCRIPT = """
rules:
  - when: {turn: 1}
    reply:
      tool_calls: [{name: bash, arguments: {command: echo one}}, {name: read, arguments: {filePath: src/other.py}}]
  - {when: {turn: 2}, reply: {text: "${result.0}"}}
"""


@pytest.mark.parametrize(
    ("reply", "status", "calls"),
    [
        (Reply(choice="once"), State.COMPLETED, 2),
        (Reply(choice="always", rules=("bash:echo *",)), State.COMPLETED, 2),
        (Reply(choice="reject", message="use another"), State.COMPLETED, 2),
        (Reply(choice="reject"), State.ERROR, 1),
    ],
)
async def test_what_a_person_said_is_in_the_recording(start_agents, workspace, reply, status, calls):
    hands, _ = await start_agents(SCRIPT, agents={"asker": ASKER})
    request = hands.request(
        agent="asker",
        auth_scope=("bash:**", "read:**"),
        workspace=workspace,
        asks=AskTerms(),
        input=TaskInput(prompt="go", params={"record": True}),
    )
    await hands.transport.submit([request])
    await hands.until(request.trace_id, lambda progress: progress.status is State.WAITING)
    [one] = await open_asks(hands.transport, trace_id=request.trace_id)
    await give(hands.transport, one, reply, by="tester")
    result = await hands.ended(request.task_id)

    blobs, record = hands.transport.blobs, await hands.transport.record(request.task_id)
    entries = await find_cassette(blobs, {one.name: one.blob for one in result.attachments}, record.checkpoint)
    ended = await replay(entries, blobs, {**builtin(), "asker": parse_agent("asker", ASKER)})

    assert result.status is status
    assert status is State.COMPLETED or result.errors[0].code == ErrorCode.REFUSED
    assert (ended.difference, ended.is_whole, ended.calls, ended.answers) == (None, True, calls, 2)
