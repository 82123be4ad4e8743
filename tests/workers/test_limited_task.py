"""The limiter in a worker: real Redis, a scripted model over HTTP that refuses, metrics, events."""

from __future__ import annotations

import asyncio

import pytest

from envelope.lifecycle import State
from envelope.messages import TaskInput, TaskProgress, Workspace

pytestmark = [pytest.mark.redis, pytest.mark.docker]

MODEL = "openai/scripted"
REFUSES_ONCE = """
rules:
  - when: {prompt_contains: first}
    times: 1
    fault: {status: 429, retry_after: 6}
  - when: {turn: 1}
    reply: {text: done}
"""


def request_of(hands, workspace: Workspace, prompt: str):
    told = {"agent": "explore", "recipient": "explore", "auth_scope": ("read:**",)}
    return hands.request(workspace=workspace, input=TaskInput(prompt=prompt), **told)


async def retries_of(hands, trace_id: str) -> list:
    return [
        event
        async for entry in hands.transport.follow(trace_id)
        if isinstance(entry.message, TaskProgress)
        for event in entry.message.events
        if event.kind == "retry"
    ]


async def test_a_429_to_one_task_holds_the_others_back_and_is_counted(start_agents, workspace):
    hands, _ = await start_agents(REFUSES_ONCE, model_requests_per_minute=600)
    first, second = (request_of(hands, workspace, prompt) for prompt in ("first", "second"))
    await hands.transport.submit([first])
    await hands.until(first.trace_id, lambda progress: any(event.kind == "retry" for event in progress.events))

    results = await asyncio.gather(hands.result(second), hands.ended(first.task_id))

    assert [result.status for result in results] == [State.COMPLETED] * 2
    (held_back,) = await retries_of(hands, second.trace_id)
    assert (held_back.attempt, held_back.wait_ms > 1_000) == (0, True)
    value = hands.metrics.registry.get_sample_value
    assert value("muster_llm_rate_limited_total", {"model": MODEL}) == 1
    assert value("muster_llm_limiter_wait_seconds_count", {"model": MODEL}) == 3
    assert value("muster_llm_limiter_limit", {"model": MODEL}) == pytest.approx(558, abs=1)
