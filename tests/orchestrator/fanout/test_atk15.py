"""atk15: budgets and deadlines of fan-outs: raised while items stand outside, and over restarts."""

from __future__ import annotations

import asyncio
import time
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


async def test_a_raised_fanout_spends_more_than_it_was_raised_to(redis_stage):
    """`--max-running 1`: a person raises the cap from 4,000 to 4,100 while the first of four items runs."""
    stage = redis_stage
    greedy = Greedy(stage.transport, waits=frozenset({"look at one"}))
    request = await ask(stage, ["one", "two", "three", "four"], max_running=1, budget=Budget(max_cost_microusd=4_000))
    async with stage.orchestrator(), stage.serving("explore", greedy.handle):
        handle = await stage.muster.submit(request)
        await greedy.at_start.wait()
        first = greedy.started[0]
        before = await stage.transport.ledger(first.trace_id)
        raised = await stage.muster.raise_budget(handle.trace_id, 4_100, by="anna")
        after = await stage.transport.ledger(first.trace_id)
        print(f"\nitem one's cap: {before.cap_microusd} -> {after.cap_microusd}; the fan-out's: {raised.cap_microusd}")
        greedy.gate.set()
        [result] = await stage.muster.gather([handle])
    whole = (await stage.muster.budget(handle.trace_id)).ledger
    print("spent by item:", list(greedy.spent.values()), "state:", result.status)
    print(f"SPENT {whole.spent_microusd} of a cap of {whole.cap_microusd}")
    assert whole.spent_microusd <= whole.cap_microusd


async def test_what_is_forgotten_is_paid_again_after_a_restart(conductor_redis, keep_settings, tmp_path):
    """Retention shorter than the deadline (docs/redis.md: shorten it to make room): a drained orchestrator, a new one."""
    limits = Limits(lease_ms=1_000, retention_ms=2_000)
    async with stage_on(conductor_redis, keep_settings, tmp_path, limits) as stage:
        greedy = Greedy(stage.transport, waits=frozenset({"look at two"}))
        request = await ask(stage, ["one", "two"], budget=Budget(max_cost_microusd=2_000), deadline_ms=3_600_000)
        async with stage.serving("explore", greedy.handle):
            async with stage.orchestrator():
                handle = await stage.muster.submit(request)
                while len(greedy.started) < 2 or not greedy.spent:
                    await asyncio.sleep(0.05)
                await asyncio.sleep(0.5)
            await asyncio.sleep(3)  # the fleet is deployed anew
            async with stage.orchestrator():
                await asyncio.sleep(2)
                greedy.gate.set()
                [result] = await stage.muster.gather([handle])
    print("\nstarted:", [one.input.prompt for one in greedy.started], "spent:", list(greedy.spent.values()))
    print(f"SPENT {sum(greedy.spent.values())} of a cap of 2000; {result.status}")
    assert sum(greedy.spent.values()) <= 2_000


async def test_items_that_begin_late_live_longer_than_their_fanout(redis_stage):
    """`--max-running 1`, a deadline of 8 s for all together; the orchestrator dies at 6 s and nobody is there to sweep."""
    stage = redis_stage
    greedy = Greedy(stage.transport, waits=frozenset({"look at two"}))

    async def slow(delivery):
        if delivery.request.input.prompt == "look at one":
            await asyncio.sleep(5)
        return await greedy.handle(delivery)

    request = await ask(stage, ["one", "two"], max_running=1, budget=Budget(max_cost_microusd=2_000), deadline_ms=8_000)
    async with stage.serving("explore", slow):
        async with stage.orchestrator():
            handle = await stage.muster.submit(request)
            until_ms = (await stage.transport.record(handle.task_id)).expires_at_ms
            while len(greedy.started) < 2:
                await asyncio.sleep(0.05)
        for name, end in greedy.deadlines:
            print(f"\n{name}: deadline {(end - until_ms) / 1000:+.1f} s against its fan-out's")
        two = greedy.started[-1].task_id
        while (await stage.transport.record(two)).state is State.RUNNING:
            await asyncio.sleep(0.2)
        late = await stage.transport.now_ms() - until_ms
        print(
            f"item two ended {late / 1000:+.1f} s after the fan-out's deadline, as {(await stage.transport.record(two)).state}"
        )
        greedy.gate.set()
    assert late <= 5_000
