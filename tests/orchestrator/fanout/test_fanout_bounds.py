"""Budgets and deadlines of fan-outs: raised while items stand outside, and over restarts."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import pytest

from envelope.agents import AgentCard
from envelope.budget import Budget, Metrics
from envelope.lifecycle import State
from envelope.messages import Output, TaskProgress, TaskRequest, TaskResult
from orchestrator.fanout.items import items_of_lines
from orchestrator.fanout.spec import fanout_request
from transport.consumer import Delivery
from transport.limits import Limits

from ..conftest import stage_on

EXPLORE = AgentCard(name="explore", mode="subagent", pool="explore", auth_scope=("read:**",))
pytestmark = pytest.mark.redis


@dataclass
class Greedy:
    """A worker whose model takes all that its trace may spend, as a worker takes it: reserved first, then charged."""

    transport: object
    gate: asyncio.Event = field(default_factory=asyncio.Event)
    waits: frozenset[str] = frozenset()
    started: list[TaskRequest] = field(default_factory=list)
    spent: dict[str, int] = field(default_factory=dict)
    deadlines: list[tuple[str, int]] = field(default_factory=list)
    at_start: asyncio.Event = field(default_factory=asyncio.Event)

    async def handle(self, delivery: Delivery) -> TaskResult:
        task, lease = delivery.request, delivery.claim.lease
        self.started.append(task)
        self.deadlines.append((task.input.prompt, delivery.claim.expires_at_ms))
        self.at_start.set()
        if task.input.prompt in self.waits:
            await self.gate.wait()
        own, seq = 0, 0
        while await self.transport.reserve(lease, 100) is not None:
            told = TaskProgress(
                trace_id=task.trace_id,
                task_id=task.task_id,
                attempt=lease.attempt,
                seq=seq,
                at_ms=await self.transport.now_ms(),
                status=State.RUNNING,
            )
            await self.transport.emit(lease, told, charge_microusd=100, release_microusd=100)
            own, seq = own + 100, seq + 1
        self.spent[task.task_id] = own
        said = {"trace_id": task.trace_id, "task_id": task.task_id, "attempt": lease.attempt}
        return TaskResult(**said, status=State.COMPLETED, output=Output(text="x"), metrics=Metrics(cost_microusd=own))


async def ask(stage, words, **options) -> TaskRequest:
    return await fanout_request(
        "look at {item}",
        items_of_lines(words, name="words"),
        agent=EXPLORE,
        blobs=stage.transport.blobs,
        settings=stage.muster.settings,
        **options,
    )


async def test_a_raised_fanout_gives_away_nothing_that_is_kept_for_items_to_come(redis_stage):
    """One at a time: a person raises the cap from 4,000 to 4,100 while the first of four items runs."""
    stage = redis_stage
    greedy = Greedy(stage.transport, waits=frozenset({"look at one"}))
    request = await ask(stage, ["one", "two", "three", "four"], max_running=1, budget=Budget(max_cost_microusd=4_000))
    async with stage.orchestrator(), stage.serving("explore", greedy.handle):
        handle = await stage.muster.submit(request)
        await greedy.at_start.wait()
        await stage.muster.raise_budget(handle.trace_id, 4_100, by="anna")
        first = greedy.started[0].trace_id
        while (await stage.transport.ledger(first)).cap_microusd == 1_000:
            await asyncio.sleep(0.05)
        greedy.gate.set()
        await stage.muster.gather([handle])

    assert list(greedy.spent.values()) == [1_100, 1_000, 1_000, 1_000]
    assert (await stage.muster.budget(handle.trace_id)).ledger.spent_microusd == 4_100


async def test_what_has_ended_is_not_paid_again_after_a_restart(conductor_redis, keep_settings, tmp_path):
    """With a retention that is shorter than the deadline."""
    limits = Limits(lease_ms=1_000, retention_ms=500)
    async with stage_on(conductor_redis, keep_settings, tmp_path, limits) as stage:
        greedy = Greedy(stage.transport, waits=frozenset({"look at two"}))
        request = await ask(stage, ["one", "two"], budget=Budget(max_cost_microusd=2_000), deadline_ms=3_600_000)
        async with stage.serving("explore", greedy.handle):
            async with stage.orchestrator():
                handle = await stage.muster.submit(request)
                while len(greedy.started) < 2 or not greedy.spent:
                    await asyncio.sleep(0.05)
                ended = next(iter(greedy.spent))
                while (await stage.transport.record(ended)).state is State.RUNNING:
                    await asyncio.sleep(0.05)
            await asyncio.sleep(2 * limits.retention_ms / 1000)
            async with stage.orchestrator():
                greedy.gate.set()
                [result] = await stage.muster.gather([handle])

    assert result.status is State.COMPLETED
    assert list(greedy.spent.values()) == [1_000, 1_000]


async def test_items_that_begin_late_have_no_more_time_than_their_fanout(redis_stage):
    stage = redis_stage
    greedy = Greedy(stage.transport)
    request = await ask(stage, ["one", "two"], max_running=1, budget=Budget(max_cost_microusd=2_000))
    async with stage.serving("explore", greedy.handle), stage.orchestrator():
        handle = await stage.muster.submit(request)
        until_ms = (await stage.transport.record(handle.task_id)).expires_at_ms
        await stage.muster.gather([handle])

    assert len(greedy.deadlines) == 2
    assert all(end <= until_ms for _, end in greedy.deadlines)
