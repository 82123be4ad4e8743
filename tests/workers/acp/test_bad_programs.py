"""Programs that die, hang, flood, talk nonsense, or are not there: each ends its task with a sentence."""

from __future__ import annotations

import json
from typing import Any

import pytest

from envelope.asks import AskTerms
from envelope.budget import Budget
from envelope.errors import ErrorCode
from envelope.lifecycle import State
from orchestrator.asks import open_asks
from workers.acp import calls, conversation, terminals, told

pytestmark = [pytest.mark.redis, pytest.mark.docker]


@pytest.fixture
def ends(start_agents, led, containers_of_task):
    """`await ends(agent, prompt)`: the one error of the task, whose sandbox is gone."""

    async def ended(agent: str, prompt: str, **fields):
        hands, _ = await start_agents("rules: []", agents={"foreign": agent})
        request = led(hands, prompt, **fields)
        result = await hands.result(request)
        await hands.stop()
        assert containers_of_task(request.task_id) == []
        [error] = result.errors
        return error

    return ended


async def test_one_that_dies_is_told_with_its_last_words(ends, agent_file, steps):
    error = await ends(agent_file(), steps(("run", "true"), ("die", 3)))

    assert (error.code, error.retryable) == (ErrorCode.ENGINE, True)
    assert "broke off" in error.message
    assert "the program is broken" in error.hint
    assert "\x1b" not in error.hint


async def test_one_that_is_silent_and_waits_for_nothing_is_ended(ends, agent_file, steps, monkeypatch):
    monkeypatch.setattr(conversation, "SILENCE_S", 1.0)

    error = await ends(agent_file(), steps(("hang",)))

    assert (error.code, "has said nothing for 1 s" in error.message) == (ErrorCode.ENGINE, True)


@pytest.mark.parametrize(
    ("step", "words"),
    [("garbage", "not the Agent Client Protocol"), ("flood", "more than any"), ("long_line", "it floods")],
)
async def test_one_that_talks_nonsense_or_without_end_is_ended(ends, agent_file, steps, monkeypatch, step, words):
    monkeypatch.setattr(told, "MAX_TEXT_CHARS", 1_000_000)

    error = await ends(agent_file(), steps((step,)))

    assert (error.code, error.retryable) == (ErrorCode.ENGINE, True)
    assert words in error.message


def answers(**answer: Any) -> str:
    """A program that says this to whatever it is asked first."""
    said = json.dumps({"jsonrpc": "2.0", "id": 0, **answer})
    return json.dumps(["sh", "-c", f"read asked; echo '{said}'; cat"])


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("[no-such-program, acp]", "no-such-program: not found"),
        ("[python3, -c, 'import sys; sys.stdin.readline(); print(1)']", "has complained of nothing"),
        (answers(result={"protocolVersion": 9}), "version 9"),
        (answers(result={"odd": 9}), "not in the protocol's form"),
        (answers(error={"code": -32000, "message": "no"}), "no account enters a sandbox"),
    ],
    ids=["absent", "ends", "newer", "odd", "account"],
)
async def test_one_that_cannot_be_led_is_the_callers_to_mend(ends, agent_file, command, words):
    error = await ends(agent_file().replace("[python3, tool/agent_program.py]", command), "go")

    assert (error.code, error.retryable) == (ErrorCode.BAD_INPUT, False)
    assert words in f"{error.message} {error.hint}"


async def test_a_mode_that_it_does_not_have_is_named_with_those_that_it_has(ends, agent_file):
    error = await ends(agent_file("session_mode: ponder\n"), "go")

    assert (error.code, error.hint) == (ErrorCode.BAD_INPUT, "it has: code, look")


async def test_the_deadline_ends_it_and_its_sandbox(start_agents, led, agent_file, steps, containers_of_task):
    hands, _ = await start_agents("rules: []", agents={"foreign": agent_file()})
    request = led(hands, steps(("run", "sleep 1000")), deadline_ms=6_000)

    result = await hands.result(request)

    await hands.stop()
    assert result.status is State.EXPIRED
    assert containers_of_task(request.task_id) == []


async def test_one_that_will_not_end_ends_with_its_sandbox(start_agents, led, agent_file, steps, containers_of_task):
    hands, _ = await start_agents("rules: []", agents={"foreign": agent_file()})
    request = led(hands, steps(("stays",)))
    await hands.transport.submit([request])
    await hands.until(request.trace_id, lambda progress: any(e.kind == "text" for e in progress.events))

    await hands.transport.cancel(request.task_id, reason="enough", by="me")
    result = await hands.ended(request.task_id)

    await hands.stop()
    assert result.status is State.CANCELLED
    assert containers_of_task(request.task_id) == []


async def test_one_that_asks_and_dies_leaves_no_open_ask(
    start_agents, led, agent_file, steps, go_on, containers_of_task
):
    hands, _ = await start_agents("rules: []", agents={"foreign": agent_file("permission: {edit: ask}\n")})
    request = led(hands, steps(("asks_and_dies", "/workspace/src/greet.py")), asks=AskTerms())
    await hands.transport.submit([request])
    await hands.until(request.trace_id, lambda progress: progress.status is State.WAITING)

    go_on(request)
    result = await hands.ended(request.task_id)

    assert [error.code for error in result.errors] == [ErrorCode.ENGINE]
    assert await open_asks(hands.transport, trace_id=request.trace_id) == []
    assert (await hands.transport.record(request.task_id)).waits_for == ()
    await hands.stop()
    assert containers_of_task(request.task_id) == []


async def test_one_that_opens_a_thousand_terminals_gets_a_few(start_agents, led, agent_file, steps, monkeypatch):
    monkeypatch.setattr(terminals, "MAX_TERMINALS", 3)
    monkeypatch.setattr(calls, "MAX_CALLS", 1_000)
    hands, _ = await start_agents("rules: []", agents={"foreign": agent_file()})

    result = await hands.result(led(hands, steps(("terminals", 1_001), ("read", "/workspace/src/greet.py"))))

    assert result.errors == ()
    assert result.output.text == "3\nERROR this task gets no more calls"


async def test_what_a_budget_of_calls_does_not_allow_is_not_done(start_agents, led, agent_file, steps):
    hands, _ = await start_agents("rules: []", agents={"foreign": agent_file()})
    writes = [("write", f"/workspace/src/made{number}.py", "A = 1\n") for number in range(4)]

    result = await hands.result(led(hands, steps(*writes), budget=Budget(max_tool_calls=2)))

    assert result.output.text.count("no more calls") == 2
    assert [file.path for file in result.patch.files] == ["src/made0.py", "src/made1.py"]


async def test_a_command_that_floods_its_terminal_is_ended_and_its_end_is_kept(
    start_agents, led, agent_file, steps, monkeypatch
):
    monkeypatch.setattr(terminals, "MAX_SAID_BYTES", 2_000_000)
    hands, _ = await start_agents("rules: []", agents={"foreign": agent_file()})

    result = await hands.result(led(hands, steps(("runs_until_killed", "yes"))))

    assert result.errors == ()
    assert result.output.text == "SIGKILL True"


async def test_one_that_talks_nonsense_in_the_relays_place_has_no_relay_any_more(start_agents, led, agent_file, steps):
    hands, server = await start_agents("rules: []", agents={"foreign": agent_file()})

    result = await hands.result(led(hands, steps(("speaks_for_the_relay", "[1]"), ("openai", "is anybody there?"))))

    assert (result.errors, result.output.text) == ((), "None\nHTTP: nobody is there")
    assert server.log.requests == 0
