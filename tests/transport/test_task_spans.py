"""Where submissions and attempts stand in a trace, as a collector receives it; and what is passed on where nobody
traces."""

from __future__ import annotations

import asyncio

import pytest
from collector import collector

from envelope.ids import new_task_id, new_trace_id
from envelope.messages import Output, TaskRequest, TaskResult
from envelope.state import State
from envelope.tracing.context import attempt_span_id, context_of
from envelope.tracing.otel import OtelTracer
from envelope.tracing.spans import continued, link_attempt, tracing
from transport.consumer import Consumer, Delivery
from transport.keyring import fresh
from transport.memory import MemoryTransport
from transport.outbox import Outbox

CALLER = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


def request(**fields) -> TaskRequest:
    defaults = {
        "task_id": new_task_id(), "trace_id": new_trace_id(), "sender": "test", "recipient": "build",
        "agent": "build", "deadline_ms": 60_000, "created_at_ms": 0,
    }  # fmt: skip
    return TaskRequest(**{**defaults, **fields})


async def served(transport: MemoryTransport, handle, requests: list[TaskRequest]) -> list[TaskResult]:
    """The results of requests that are submitted here and worked on by one consumer."""
    now_ms, stop, box = await transport.now_ms(), asyncio.Event(), Outbox(transport)
    consumer = Consumer(transport, pool="build", worker="w", slots=4, handle=handle)
    serving = asyncio.create_task(consumer.run(stop))
    handles = await box.submit([one.model_copy(update={"created_at_ms": now_ms}) for one in requests])
    results = [result async for result in box.results([one.task_id for one in handles])]
    stop.set()
    await serving
    return results


def done(delivery: Delivery) -> TaskResult:
    lease = delivery.claim.lease
    said = {"trace_id": lease.trace_id, "task_id": lease.task_id, "attempt": lease.attempt}
    return TaskResult(**said, status=State.COMPLETED, output=Output(text=delivery.request.traceparent))


async def test_a_shard_is_a_trace_of_its_own_with_a_link_to_its_batch_and_its_answer_comes_by_one(monkeypatch):
    transport = MemoryTransport(keyring=fresh())
    shards = [request(agent="shard") for _ in range(2)]

    async def work(delivery: Delivery) -> TaskResult:
        if delivery.request.agent == "batch":
            box = Outbox(transport)
            now_ms = await transport.now_ms()
            handles = await box.submit([one.model_copy(update={"created_at_ms": now_ms}) for one in shards])
            async for result in box.results([handle.task_id for handle in handles]):
                link_attempt(result.task_id, result.attempt, result.trace_id)
        return done(delivery)

    with collector() as one:
        for name, value in one.environment.items():
            monkeypatch.setenv(name, value)
        tracer = OtelTracer("test", captures=False)
        batch = request(agent="batch")
        with tracing(tracer):
            await served(transport, work, [batch])
        tracer.stop(60)
        spans = one.spans

    [driver] = [span for span in spans if span.name == "attempt batch"]
    submits = {span.attributes["muster.task_id"]: span for span in spans if span.name == "submit shard"}
    assert driver.trace_id == batch.trace_id
    for shard in shards:
        submitted = submits[shard.task_id]
        assert (submitted.trace_id, submitted.parent_id) == (shard.trace_id, "")
        assert submitted.links == [(batch.trace_id, driver.span_id)]
        assert (shard.trace_id, attempt_span_id(shard.task_id, 1)) in driver.links
    assert driver.attributes["muster.outcome"] == "completed"


@pytest.mark.parametrize("said", [CALLER, ""])
async def test_where_nobody_traces_what_a_caller_said_is_passed_on(said):
    transport = MemoryTransport(keyring=fresh())

    async def work(delivery: Delivery) -> TaskResult:
        if delivery.request.agent == "parent":
            [child] = await served_child(transport, delivery.request)
            return done(delivery).model_copy(update={"output": child.output})
        return done(delivery)

    with continued(context_of(said)):
        [result] = await served(transport, work, [request(agent="parent")])

    assert result.output.text == said


async def served_child(transport: MemoryTransport, parent: TaskRequest) -> list[TaskResult]:
    box, now_ms = Outbox(transport), await transport.now_ms()
    [handle] = await box.submit(
        [request(trace_id=parent.trace_id, parent_task_id=parent.task_id, created_at_ms=now_ms)]
    )
    return [result async for result in box.results([handle.task_id])]
