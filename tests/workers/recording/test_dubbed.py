"""Tasks whose model is a recording: it says again what it said, while tools run; and the temperature of a task."""

from __future__ import annotations

import pytest

from envelope.errors import ErrorCode
from envelope.lifecycle import State
from workers.recording.recorder import CASSETTE

pytestmark = [pytest.mark.redis, pytest.mark.docker]


async def test_a_recorded_model_does_its_work_again_and_is_not_asked(start_agents, asked, works):
    hands, server = await start_agents(works)
    then = await hands.result(asked(hands, "change other"))
    cassette = next(one.blob for one in then.attachments if one.name == CASSETTE)
    requests = server.log.requests

    now = await hands.result(asked(hands, "change other", params={"replay": cassette}))

    assert server.log.requests == requests  # nor is a subagent started, whose model would be
    assert (now.status, now.output.text) == (State.COMPLETED, then.output.text)
    assert now.patch is not None and then.patch is not None
    assert now.patch.tree == then.patch.tree
    assert (now.metrics.turns, now.metrics.cost_microusd) == (then.metrics.turns, 0)
    assert now.metrics.usage == then.metrics.usage
    assert now.metrics.usage.output_tokens > 0


async def test_what_a_provider_said_that_a_call_costs_is_not_paid_again(start_agents, asked, works):
    hands, _ = await start_agents(works)
    then = await hands.result(asked(hands, "change other"))
    cassette = await hands.transport.blobs.get(next(one.blob for one in then.attachments if one.name == CASSETTE))
    assert cassette.count(b'"cost_microusd": null') == 3
    told = await hands.transport.blobs.put(cassette.replace(b'"cost_microusd": null', b'"cost_microusd": 5000'))

    now = await hands.result(asked(hands, "change other", params={"replay": told}))

    assert (now.status, now.metrics.cost_microusd) == (State.COMPLETED, 0)


async def test_a_recording_that_ends_before_the_task_does_is_said(start_agents, asked, works):
    hands, _ = await start_agents(works)
    then = await hands.result(asked(hands, "change other"))
    cassette = await hands.transport.blobs.get(next(one.blob for one in then.attachments if one.name == CASSETTE))
    lines = cassette.decode().splitlines(keepends=True)
    last = max(at for at, line in enumerate(lines) if '"kind": "call"' in line)
    cut = await hands.transport.blobs.put("".join(lines[:last]).encode())

    now = await hands.result(asked(hands, "change other", params={"replay": cut}))

    assert [error.code for error in now.errors] == [ErrorCode.BAD_INPUT]
    assert now.errors[0].message == "the recording has 2 replies, and the task asks for another"


async def test_what_is_no_recording_is_refused(start_agents, asked, works):
    hands, server = await start_agents(works)
    ref = await hands.transport.blobs.put(b"\x7fELF")

    now = await hands.result(asked(hands, "change other", params={"replay": ref}))

    assert "the recording cannot be read" in now.errors[0].message
    assert server.log.requests == 0


async def test_a_task_may_have_a_temperature_of_its_own(start_agents, asked):
    hands, server = await start_agents('rules: [{reply: {text: "ok"}}]')

    await hands.result(asked(hands, "change other", params={"temperature": 0.25}))

    assert server.log.bodies[-1]["temperature"] == 0.25
