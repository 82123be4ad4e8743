"""What a program sends that means harm, or that its makers never tried: no other task of the worker notices."""

from __future__ import annotations

import asyncio
import json
import time

import pytest

from envelope.asks import AskTerms
from envelope.errors import ErrorCode
from envelope.lifecycle import State
from orchestrator.asks import open_asks
from workers.acp import relay
from workers.acp.lines import MAX_DEPTH, MAX_VALUES, Lines

pytestmark = [pytest.mark.redis, pytest.mark.docker]

GREET = "/workspace/src/greet.py"


async def test_what_cannot_be_done_is_told_and_what_cannot_be_read_is_left_out(start_agents, led, agent_file, steps):
    hands, _ = await start_agents("rules: []", agents={"foreign": agent_file()})
    long = "/workspace/src/" + "x" * 5_000
    request = led(
        hands,
        steps(
            ("run", "mkfifo src/pipe; truncate -s 200G src/large; ln -s /dev/zero src/zero"),
            ("read", "/workspace/src/pipe"),
            ("write", "/workspace/src/pipe", "x"),
            ("read", "/workspace/src/large"),
            ("read", "/workspace/src/zero"),
            ("read", "/workspace/src/\0"),
            ("write", long, "x"),
            ("run", "rm src/pipe src/large src/zero"),
            ("opens", "true", "A=B", ""),
            ("asks_about", 1_001),
            ("deep", 700),
            ("deep", 5_000),
            ("within", "execute", "I run", "run", "echo still here"),
        ),
    )

    result = await hands.result(request)

    assert result.errors == ()
    said = result.output.text.split("\n")
    for words in ("not a regular file", "too many to read", "external_directory", "null byte", "still here"):
        assert any(words in line for line in said), words
    assert result.patch is None
    assert ErrorCode.INTERNAL not in [error.code for error in result.errors]


async def test_half_a_character_is_no_harm(start_agents, led, agent_file, steps):
    hands, _ = await start_agents("rules: []", agents={"foreign": agent_file()})
    request = led(hands, steps(("split", "half of it: ")))

    result = await hands.result(request)

    assert result.errors == ()
    text = "".join(event.text for event in await hands.events(request.trace_id, "text"))
    assert text.startswith("half of it: ?")
    assert [call.title for call in result.tool_calls] == ["Cut ?"]


async def test_half_a_million_values_do_not_stop_the_worker(start_agents, led, agent_file, steps):
    hands, _ = await start_agents("rules: []", agents={"foreign": agent_file()})
    task = asyncio.create_task(hands.result(led(hands, steps(("many", 500_000)))))
    longest_s = 0.0
    while not task.done():
        began_s = time.thread_time()
        await asyncio.sleep(0.01)
        longest_s = max(longest_s, time.thread_time() - began_s)

    [error] = task.result().errors

    assert (error.code, f"more than {MAX_VALUES} values" in error.message) == (ErrorCode.ENGINE, True)
    assert longest_s < 1  # of this thread's own time, however busy the machine is; they took 4 s


async def test_an_error_in_no_form_is_an_error_and_no_silence(start_agents, led, agent_file, steps):
    hands, _ = await start_agents("rules: []", agents={"foreign": agent_file()})

    result = await hands.result(led(hands, steps(("answers_badly",))))

    [error] = result.errors
    assert (error.code, "none of the protocol's" in error.message) == (ErrorCode.ENGINE, True)


async def test_answers_that_come_early_twice_or_to_nobody_change_nothing(start_agents, led, agent_file, steps):
    hands, _ = await start_agents("rules: []", agents={"foreign": agent_file()})

    result = await hands.result(led(hands, steps(("answers_before",))))

    assert (result.status, result.errors, result.patch) == (State.COMPLETED, (), None)


@pytest.mark.parametrize("rule", ["ask", "deny"])
async def test_one_that_ends_its_turn_at_its_question_has_not_completed(start_agents, led, agent_file, steps, rule):
    more = f"permission: {{edit: {rule}}}\nenv: {{STUBBORN: '1'}}\n"
    hands, _ = await start_agents("rules: []", agents={"foreign": agent_file(more)})
    asks = AskTerms() if rule == "ask" else None
    request = led(hands, steps(("asks_and_ends", GREET)), asks=asks)

    result = await hands.result(request)

    assert [error.code for error in result.errors] == [ErrorCode.REFUSED]
    assert result.status is State.ERROR
    assert await open_asks(hands.transport, trace_id=request.trace_id) == []
    assert (await hands.transport.record(request.task_id)).waits_for == ()


async def test_who_asks_the_relay_without_end_has_none_any_more(start_agents, led, agent_file, steps, monkeypatch):
    monkeypatch.setattr(relay, "MAX_ASKED", 2)
    hands, server = await start_agents("rules: []", agents={"foreign": agent_file()})

    result = await hands.result(led(hands, steps(*[("get", "/none")] * 2, ("openai", "is anybody there?"))))

    assert (result.errors, result.output.text.count("HTTP 404")) == ((), 2)
    assert result.output.text.endswith("HTTP: nobody is there")
    assert server.log.requests == 0


class Said:
    """A service that says this."""

    def __init__(self, *data: bytes) -> None:
        self._data = [*data, b""]

    async def receive(self) -> bytes:
        return self._data.pop(0)


def nested(levels: int) -> str:
    return "[" * levels + "]" * levels


@pytest.mark.parametrize(
    ("said", "is_taken"),
    [
        ({"text": ',[{\\"' * MAX_VALUES}, True),  # marks in a text are none
        ({str(number): "" for number in range(MAX_VALUES - 100)}, True),
        ({str(number): "" for number in range(MAX_VALUES + 100)}, False),
        ([[]] * MAX_VALUES, False),
        (["\\"] * (MAX_VALUES + 1), False),
    ],
    ids=["text", "many", "too many", "lists", "backslashes"],
)
async def test_values_are_counted_and_texts_are_not(said, is_taken):
    line = json.dumps({"method": "any", "id": 1, "params": said}).encode()

    message = await Lines(Said(line + b"\n"), lambda message: True).receive()

    assert (message is not None) is is_taken


@pytest.mark.parametrize(("levels", "is_taken"), [(MAX_DEPTH - 1, True), (MAX_DEPTH, False), (100_000, False)])
async def test_what_is_nested_too_deep_is_no_message(levels, is_taken):
    line = f'{{"method": "any", "id": 1, "params": {nested(levels)}}}\n'.encode()

    message = await Lines(Said(line), lambda message: True).receive()

    assert (message is not None) is is_taken
