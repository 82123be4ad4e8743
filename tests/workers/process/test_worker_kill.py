"""Workers that are killed while their tasks wait for others, or have just gone on."""

from __future__ import annotations

import asyncio
import signal

import pytest
from collector import Collector, Seen, collector

from envelope.lifecycle import State
from envelope.messages import TaskInput
from envelope.tracing.context import context_of

pytestmark = [pytest.mark.redis, pytest.mark.docker]

CALLER = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

STALLS_AFTER_THE_SUBAGENT = """
rules:
  - {when: {prompt_contains: look, turn: 1}, reply: {tool_calls: [{name: bash, arguments: {command: sleep 4}}]}}
  - {when: {prompt_contains: look}, reply: {text: I looked.}}
  - when: {prompt_contains: lead, turn: 1}
    reply: {tool_calls: [{name: task, arguments: {description: x, prompt: look, subagent_type: explore}}]}
  - when: {prompt_contains: lead}
    times: 1
    reply: {text: "A reply of many words, so that some of them are seen before the worker dies, and some are not."}
    fault: {after_bytes: 800, stall_s: 600}
  - {when: {prompt_contains: lead}, reply: {text: "Done: ${result.0}"}}
"""


async def test_a_worker_that_dies_as_its_task_goes_on_costs_one_turn(start_worker, fleet, serve):
    with collector() as spans:
        await _dies_as_its_task_goes_on(start_worker, fleet, serve, spans)


async def _dies_as_its_task_goes_on(start_worker, fleet, serve, spans: Collector):
    server = await serve(STALLS_AFTER_THE_SUBAGENT)
    settings = {
        "MUSTER_MODEL": "openai/scripted", "MUSTER_MODEL_BASE_URL": server.base_url, "MUSTER_MODEL_API_KEY": "unused",
        "MUSTER_SLOTS": "1", "MUSTER_LEASE_S": "2", "MUSTER_TITLES": "false", **spans.environment,
    }  # fmt: skip
    await start_worker("explore", **settings)
    first = await start_worker("build", **settings)
    asked = {"input": TaskInput(prompt="lead"), "traceparent": CALLER}
    request = await fleet.submit(agent="build", auth_scope=("bash:**", "task:**"), **asked)
    await fleet.until(request, "state", state=State.WAITING)
    await asyncio.to_thread(spans.until, lambda seen: attempts_of(request.task_id, seen))
    await fleet.until(request, "text")  # of the second turn: the first had none
    first.send_signal(signal.SIGKILL)
    await first.wait()
    await start_worker("build", **settings)

    result = await fleet.ended(request.task_id)

    assert "Done:" in result.output.text and "I looked." in result.output.text
    assert (result.attempt, result.metrics.turns) == (3, 2)
    assert (await fleet.transport.record(request.task_id)).lost_leases == 1
    assert server.log.requests == 2 + 1 + 2  # the explorer's turns, the caller's first, and its second twice
    # what the killed one had not ended is never told; the next attempt stands beside it, and says why there is one more
    seen = await asyncio.to_thread(spans.until, lambda seen: len(attempts_of(request.task_id, seen)) == 2)
    parked, last = attempts_of(request.task_id, seen)
    assert (parked.attributes["muster.attempt"], last.attributes["muster.attempt"]) == (1, 3)
    assert last.attributes["muster.lost_leases"] == 1
    assert {span.parent_id for span in (parked, last)} == {context_of(CALLER).span_id}


def attempts_of(task_id: str, seen: list[Seen]) -> list[Seen]:
    found = [span for span in seen if span.name == "attempt build" and span.attributes["muster.task_id"] == task_id]
    return sorted(found, key=lambda span: span.start_ns)


STALLS_WHEN_TOLD = """
rules:
  - {when: {prompt_contains: look}, reply: {text: I looked.}}
  - when: {prompt_contains: lead, turn: 1}
    reply:
      tool_calls: [{name: task, arguments: {description: x, prompt: look, subagent_type: explore, background: true}}]
  - when: {user_contains: I looked.}
    times: 1
    reply: {reasoning: "Many words, some of which are seen before the worker dies.", text: and none of these}
    fault: {after_bytes: 800, stall_s: 600}
  - {when: {user_contains: I looked.}, reply: {text: I was told.}}
  - {when: {prompt_contains: lead}, reply: {text: I wait.}}
"""


async def test_a_worker_that_dies_when_its_task_was_told_of_a_subagent_leaves_it_told_once(start_worker, fleet, serve):
    server = await serve(STALLS_WHEN_TOLD)
    settings = {
        "MUSTER_MODEL": "openai/scripted", "MUSTER_MODEL_BASE_URL": server.base_url, "MUSTER_MODEL_API_KEY": "unused",
        "MUSTER_SLOTS": "1", "MUSTER_LEASE_S": "2", "MUSTER_TITLES": "false",
    }  # fmt: skip
    first = await start_worker("build", **settings)
    request = await fleet.submit(agent="build", auth_scope=("bash:**", "task:**"), input=TaskInput(prompt="lead"))
    await fleet.until(request, "state", state=State.WAITING)
    await start_worker("explore", **settings)
    await fleet.until(request, "reasoning")
    first.send_signal(signal.SIGKILL)
    await first.wait()
    await start_worker("build", **settings)

    result = await fleet.ended(request.task_id)

    last = [body["messages"] for body in server.log.bodies if body["messages"][1]["content"] == "lead"][-1]
    assert result.output.text == "I was told."
    assert sum("I looked." in str(message["content"]) for message in last) == 1
