"""What people say to a program at work: its next prompt, in the session for good, whatever goes on beside it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import aiohttp
import pytest

from envelope.messages import TaskProgress
from workers.sessions.checkpoints import Checkpoints

pytestmark = [pytest.mark.redis, pytest.mark.docker]

SAYS = """
rules:
  - when: {user_contains: a reply that is held}
    reply: {text: "at last"}
    fault: {until: first}
  - when: {user_contains: one more that is held}
    reply: {text: "at last"}
    fault: {until: second}
  - reply: {text: "yes"}
"""
HELD, HELD_LATER = "a reply that is held", "one more that is held"


async def let_go(server, word: str) -> None:
    async with aiohttp.ClientSession() as client, client.post(f"{server.url}/go/{word}"):
        pass


def told(*kinds: str) -> Callable[[TaskProgress], bool]:
    """Until events of all these kinds have been told."""
    missing = list(kinds)

    def seen(progress: TaskProgress) -> bool:
        for event in progress.events:
            if event.kind in missing:
                missing.remove(event.kind)
        return not missing

    return seen


async def test_a_word_that_comes_while_a_model_call_is_under_way_stays_in_the_session(
    start_agents, led, agent_file, steps, go_on
):
    hands, server = await start_agents(SAYS, agents={"foreign": agent_file()})
    request = led(hands, steps(("aside", HELD), ("pause",)))
    await hands.transport.submit([request])
    await hands.until(request.trace_id, told("turn_started", "todo"))

    word = steps(("openai", "when the first is over"))
    await hands.transport.prompt(request.task_id, word, by="me")
    go_on(request)
    await hands.until(request.trace_id, told("message", "message"))
    await let_go(server, "first")
    result = await hands.ended(request.task_id)

    assert (result.errors, result.output.text, result.metrics.turns) == ((), "yes", 2)
    record = await hands.transport.record(request.task_id)
    session = await Checkpoints(hands.transport.blobs).load(record.checkpoint)
    said = [(message.role, message.content) for message in session.messages if message.role != "system"]
    assert said == [
        ("user", request.input.prompt),
        ("assistant", "None\nNone"),
        ("user", word),
        ("assistant", "yes"),
    ]
    assert (session.turn, session.cost_microusd) == (2, result.metrics.cost_microusd)


async def test_a_word_that_was_heard_is_gone_on_with_by_the_next_attempt_and_so_is_the_work_before_it(
    start_agents, led, agent_file, steps
):
    hands, server = await start_agents(SAYS, agents={"foreign": agent_file()})
    request = led(hands, steps(("edits", "/workspace/src/new.py", "X = 1\n"), ("openai", HELD)))
    await hands.transport.submit([request])
    await hands.until(request.trace_id, told("turn_started"))
    await hands.transport.prompt(request.task_id, steps(("openai", HELD_LATER)), by="me")
    await let_go(server, "first")
    await hands.until(request.trace_id, told("turn_started", "turn_started"))

    await hands.stop()
    await let_go(server, "second")
    others, _ = await start_agents("rules: []", model_base_url=server.base_url, agents={"foreign": agent_file()})
    result = await others.ended(request.task_id)

    assert (result.errors, result.attempt) == ((), 2)
    assert result.output.text == "at last"
    assert [file.path for file in result.patch.files] == ["src/new.py"]


async def test_a_word_that_comes_when_the_program_has_ended_is_answered_before_the_task_ends(
    start_agents, led, agent_file, steps, go_on
):
    hands, server = await start_agents(SAYS, agents={"foreign": agent_file()})
    request = led(hands, steps(("aside", HELD), ("pause",)))
    await hands.transport.submit([request])
    await hands.until(request.trace_id, told("turn_started", "todo"))
    go_on(request)
    async with asyncio.timeout(60):  # the first that is stored: its mail is looked at then, for the last time
        while (await hands.transport.record(request.task_id)).checkpoint is None:
            await asyncio.sleep(0.02)

    await hands.transport.prompt(request.task_id, "one thing more", by="me")
    await let_go(server, "first")
    result = await hands.ended(request.task_id)

    assert (result.errors, result.attempt) == ((), 2)
    assert result.output.text == "heard: one thing more"
