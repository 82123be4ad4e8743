"""Tasks that are recorded, and played again: on a real worker, then without model, sandbox and network."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace

import pytest

from envelope.budget import Budget
from envelope.lifecycle import State
from envelope.messages import TaskInput
from envelope.redaction import register_secret
from workers.agents.registry import builtin
from workers.errors import BadInput
from workers.llm import retry
from workers.llm.retry import wait_ms
from workers.recording.recorder import CASSETTE
from workers.recording.replay import find_cassette, replay

pytestmark = [pytest.mark.redis, pytest.mark.docker]


async def cassette_of(hands, result):
    blobs = hands.transport.blobs
    record = await hands.transport.record(result.task_id)
    return await find_cassette(blobs, {one.name: one.blob for one in result.attachments}, record.checkpoint)


async def replayed(hands, result, agents=None):
    return await replay(await cassette_of(hands, result), hands.transport.blobs, agents or builtin())


async def test_a_recorded_task_is_the_same_when_it_is_played_again(start_agents, asked, works):
    hands, server = await start_agents(works)
    result = await hands.result(asked(hands, "change other"))
    requests = server.log.requests

    ended = await replayed(hands, result)

    assert result.status is State.COMPLETED
    assert (ended.difference, ended.is_whole, ended.calls, ended.answers) == (None, True, 3, 4)
    assert server.log.requests == requests


async def test_a_changed_agent_shows_what_is_asked_otherwise_and_where(start_agents, asked, works):
    hands, _ = await start_agents(works)
    result = await hands.result(asked(hands, "change other"))
    build = builtin()["build"]

    ended = await replayed(
        hands, result, {**builtin(), "build": replace(build, prompt="You are terse.\n" + build.prompt)}
    )

    assert ended.difference is not None
    assert (ended.difference.turn, ended.calls) == (1, 0)
    assert ended.difference.what == "it asks the model something else"
    assert "+You are terse." in ended.difference.diff.splitlines()


async def test_a_tool_that_is_taken_away_is_a_difference_too(start_agents, asked, works):
    hands, _ = await start_agents(works)
    result = await hands.result(asked(hands, "change other"))
    narrowed = replace(builtin()["build"], tools=("read", "edit", "task"))

    ended = await replayed(hands, result, {**builtin(), "build": narrowed})

    assert "-[tool] grep" in ended.difference.diff.splitlines()


async def test_an_earlier_end_is_a_difference(start_agents, asked, works):
    hands, _ = await start_agents(works)
    result = await hands.result(asked(hands, "change other"))

    ended = await replayed(hands, result, {**builtin(), "build": replace(builtin()["build"], max_turns=2)})

    assert ended.difference.turn == 2
    assert "This is your last turn" in ended.difference.diff


async def test_failed_tries_are_on_the_cassette_and_waited_for_by_nobody(start_agents, asked, monkeypatch):
    hands, _ = await start_agents(
        """
rules:
  - {when: {turn: 1}, times: 1, fault: {status: 503}}
  - {when: {turn: 1}, reply: {tool_calls: [{name: read, arguments: {filePath: src/other.py}}]}}
  - {when: {turn: 2}, fault: {status: 401}}
"""
    )
    result = await hands.result(asked(hands, "x"))

    an_hour_if_any = lambda *told, **more: wait_ms(*told, **more) and 3_600_000  # noqa: E731
    monkeypatch.setattr(retry, "wait_ms", an_hour_if_any)
    async with asyncio.timeout(60):
        ended = await replayed(hands, result)

    assert result.errors[0].code == "model_auth"
    assert (ended.difference, ended.is_whole, ended.calls) == (None, True, 3)


async def test_what_people_said_meanwhile_is_heard_again(start_agents, asked):
    hands, _ = await start_agents(
        """
rules:
  - {when: {user_contains: and say hello}, reply: {text: "hello; ${result.0}"}}
  - {when: {turn: 1}, reply: {tool_calls: [{name: bash, arguments: {command: sleep 1; echo slept}}]}}
  - {when: {turn: 2}, reply: {text: I did not hear a thing.}}
"""
    )
    request = asked(hands, "sleep")
    await hands.transport.submit([request])
    await hands.until(request.trace_id, lambda progress: any(event.kind == "tool_call" for event in progress.events))
    await hands.transport.prompt(request.task_id, "and say hello", by="test")
    result = await hands.ended(request.task_id)

    ended = await replayed(hands, result)

    assert result.output.text == "hello; slept"
    assert (ended.difference, ended.calls) == (None, 2)


async def test_a_task_that_another_worker_finished_has_one_cassette(start_agents, asked):
    hands, server = await start_agents(
        """
rules:
  - {when: {turn: 1}, reply: {tool_calls: [{name: read, arguments: {filePath: src/other.py}}]}}
  - {when: {turn: 2}, times: 1, reply: {tool_calls: [{name: bash, arguments: {command: sleep 600}}]}}
  - {when: {turn: 2}, reply: {text: "${result.0}"}}
"""
    )
    request = asked(hands, "x")
    await hands.transport.submit([request])

    def sleeps(progress):
        return any(event.kind == "tool_call" and event.title == "sleep 600" for event in progress.events)

    await hands.until(request.trace_id, sleeps)
    await hands.stop()
    await start_agents("rules: []", model_base_url=server.base_url)
    result = await hands.ended(request.task_id)

    ended = await replayed(hands, result)

    assert result.attempt == 2
    assert (ended.difference, ended.is_whole, ended.calls, ended.answers) == (None, True, 2, 1)


async def test_a_task_that_goes_on_in_an_earlier_session_is_replayed_from_there(start_agents, asked):
    hands, _ = await start_agents(
        """
rules:
  - {when: {user_contains: second}, reply: {text: "I remember ${result.0}"}}
  - {when: {turn: 1}, reply: {tool_calls: [{name: bash, arguments: {command: echo blue}}]}}
  - {when: {turn: 2}, reply: {text: first done}}
"""
    )
    first = await hands.result(asked(hands, "first"))
    second = await hands.result(asked(hands, "second", resume_token=first.resume_token))

    ended = await replayed(hands, second)

    assert second.output.text == "I remember blue"
    assert (ended.difference, ended.calls, ended.answers) == (None, 1, 0)


async def test_a_task_that_ran_out_of_money_ends_there_again(start_agents, asked, works):
    hands, _ = await start_agents(works)
    result = await hands.result(asked(hands, "change", budget=Budget(max_cost_microusd=1)))

    ended = await replayed(hands, result)

    assert result.errors[0].code == "budget"
    assert (ended.difference, ended.is_whole, ended.calls) == (None, True, 0)  # no call that nobody could pay


async def test_of_a_task_that_was_stopped_what_was_stored_is_the_same(start_agents, asked):
    hands, _ = await start_agents(
        """
rules:
  - {when: {turn: 1}, reply: {tool_calls: [{name: read, arguments: {filePath: src/other.py}}]}}
  - {when: {turn: 2}, reply: {tool_calls: [{name: bash, arguments: {command: sleep 600}}]}}
"""
    )
    request = asked(hands, "x")
    await hands.transport.submit([request])
    await hands.until(
        request.trace_id,
        lambda progress: any(getattr(event, "title", "") == "sleep 600" for event in progress.events),
    )
    await hands.transport.cancel(request.task_id, by="test", reason="enough")

    ended = await replayed(hands, await hands.ended(request.task_id))

    assert (ended.difference, ended.is_whole, ended.calls) == (None, False, 2)


async def test_a_cassette_holds_no_secret_and_grows_as_its_session_does(start_agents, asked):
    register_secret(secret := "sk-a-key-that-a-tool-came-to-say-0815")
    echo = (
        '{{when: {{turn: {n}}}, reply: {{tool_calls: [{{name: bash, arguments: {{command: "echo {n} {secret}"}}}}]}}}}'
    )
    turns = [f"- {echo.format(n=n, secret=secret)}" for n in range(1, 21)]
    hands, _ = await start_agents("rules:\n" + "\n".join([*turns, "- {reply: {text: done}}"]))
    result = await hands.result(asked(hands, "x"))

    [attached] = [one for one in result.attachments if one.name == CASSETTE]
    text = (await hands.transport.blobs.get(attached.blob)).decode()
    calls = [line for line in text.split("\n") if json.loads(line)["kind"] == "call"]

    assert secret not in text
    assert len(calls) == 21
    assert max(map(len, calls[2:])) < 3 * min(map(len, calls[2:-1]))
    assert (await replayed(hands, result)).difference is None


async def test_a_task_that_nobody_recorded_says_how_to(start_agents, asked):
    hands, _ = await start_agents("rules: [{reply: {text: done}}]")
    result = await hands.result(asked(hands, "x", input=TaskInput(prompt="x")))

    with pytest.raises(BadInput, match="not recorded") as refused:
        await cassette_of(hands, result)
    assert "--record" in refused.value.hint
    assert result.attachments == ()
