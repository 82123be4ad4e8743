"""What a worker's loop does with what its handler, its fleet and its operator do. Real transports, real time."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import redis.asyncio

from envelope.errors import ErrorCode
from envelope.lifecycle import State
from envelope.messages import Output
from transport.consumer import SPARE_LOOK_S, Consumer, ConsumerEvent, Delivery, Ending, StopReason, What
from transport.keys import CellKeys
from transport.limits import Limits


class Serving:
    """A running consumer, its events, and what its handlers were stopped for."""

    def __init__(self, slots: int) -> None:
        self.slots = slots
        self.events: list[ConsumerEvent] = []
        self.stops: list[tuple[StopReason | None, str]] = []
        self.started = asyncio.Event()
        self.is_full = asyncio.Event()
        self.stop = asyncio.Event()
        self.running = 0
        self.peak = 0

    def counts(self) -> Counter[What]:
        return Counter(event.what for event in self.events)

    async def hold(self, delivery: Delivery):
        """A handler that works until it is stopped."""
        self.running += 1
        self.peak = max(self.peak, self.running)
        self.started.set()
        if self.running == self.slots:
            self.is_full.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.running -= 1
            self.stops.append((delivery.stop_reason, delivery.stop_detail))


@asynccontextmanager
async def serving(fleet, handle=None, *, worker="w1", slots=4, grace_s=0.0) -> AsyncIterator[Serving]:
    state = Serving(slots)
    consumer = Consumer(
        fleet.transport,
        pool="explore",
        worker=worker,
        slots=slots,
        handle=handle or state.hold,
        on_event=state.events.append,
        grace_s=grace_s,
    )
    running = asyncio.create_task(consumer.run(state.stop))
    try:
        yield state
    finally:
        state.stop.set()
        async with asyncio.timeout(20):
            await running


@pytest.fixture
def answer(fleet):
    async def handle(delivery: Delivery):
        return fleet.result(delivery.claim, f"answer to {delivery.request.input.prompt}")

    return handle


async def test_every_task_gets_the_handlers_result(fleet, answer):
    requests = [fleet.request(input={"prompt": str(n)}) for n in range(50)]
    async with serving(fleet, answer) as state:
        await fleet.transport.submit(requests)
        results = {r.task_id: r async for r in fleet.transport.results([r.task_id for r in requests])}

    for request in requests:
        assert results[request.task_id].output.text == f"answer to {request.input.prompt}"
    assert state.counts() == {What.CLAIMED: 50, What.FINISHED: 50}


async def test_no_more_tasks_run_than_there_are_slots(fleet):
    await fleet.transport.submit([fleet.request() for _ in range(10)])
    async with serving(fleet, slots=3) as state:
        await state.is_full.wait()
        (stats,) = await fleet.transport.stats(["explore"])

        assert (stats.running, stats.ready, state.peak) == (3, 7, 3)


async def test_one_tenants_long_tasks_do_not_keep_anothers_from_beginning(fleet):
    async with serving(fleet, slots=2) as worker:
        await fleet.transport.submit([fleet.request(tenant="ann") for _ in range(5)])
        await worker.is_full.wait()
        worker.slots = 3
        worker.is_full.clear()
        bobs = [await fleet.submit(tenant="bob") for _ in range(2)]
        await worker.is_full.wait()

        states = [(await fleet.transport.record(task.task_id)).state for task in bobs]
        assert sorted(states) == [State.PENDING, State.RUNNING]
        await asyncio.sleep(2 * SPARE_LOOK_S)
        assert worker.running == 3


@pytest.mark.parametrize("count", [12, 40, 100])
async def test_idle_workers_share_what_comes_at_once(fleet, count: int):
    """As of two hosts with 64 slots each: one that took all it has slots for left the other one idle."""
    all_started = asyncio.Event()
    begun: Counter[str] = Counter()

    def on(worker: str):
        async def handle(delivery: Delivery):
            begun[worker] += 1
            if begun.total() == count:
                all_started.set()
            await all_started.wait()
            return fleet.result(delivery.claim)

        return handle

    async with serving(fleet, on("w1"), worker="w1", slots=64), serving(fleet, on("w2"), worker="w2", slots=64):
        requests = [fleet.request() for _ in range(count)]
        await fleet.transport.submit(requests)
        async with asyncio.timeout(20):
            [_ async for _ in fleet.transport.results([request.task_id for request in requests])]
    assert min(begun.values()) >= count // 4


async def test_what_escapes_a_handler_ends_the_task_and_not_the_worker(fleet):
    async def handle(delivery: Delivery):
        if delivery.request.input.prompt == "bad":
            raise ZeroDivisionError("a secret of the handler")
        return fleet.result(delivery.claim)

    async with serving(fleet, handle):
        bad, good = await fleet.submit(input={"prompt": "bad"}), await fleet.submit()
        failure = await fleet.ended(bad.task_id)
        assert (await fleet.ended(good.task_id)).status is State.COMPLETED

    assert (failure.status, failure.errors[0].code) == (State.ERROR, ErrorCode.INTERNAL)
    assert "secret" not in failure.errors[0].message


async def test_a_cancelled_tasks_handler_is_told_why(fleet):
    async with serving(fleet) as state:
        request = await fleet.submit()
        await state.started.wait()
        await fleet.transport.cancel(request.task_id, by="me", reason="enough")
        result = await fleet.ended(request.task_id)

    assert state.stops == [(StopReason.CANCELLED, "enough")]
    assert (result.status, result.errors[0].message) == (State.CANCELLED, "enough")


async def test_a_handler_may_answer_a_cancellation_with_what_it_has(fleet):
    started = asyncio.Event()

    async def handle(delivery: Delivery):
        started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return fleet.result(delivery.claim, "half of it", State.CANCELLED)

    async with serving(fleet, handle):
        request = await fleet.submit()
        await started.wait()
        await fleet.transport.cancel(request.task_id, by="me", reason="enough")
        result = await fleet.ended(request.task_id)

    assert (result.status, result.output.text) == (State.CANCELLED, "half of it")


async def test_a_task_ends_at_its_deadline(fleet):
    deadline_ms = 500
    async with serving(fleet) as state:
        while not state.started.is_set():  # on a busy machine it may pass before the task begins
            request = await fleet.submit(deadline_ms=deadline_ms)
            result = await fleet.ended(request.task_id)
            deadline_ms *= 2

    assert (result.status, result.errors[0].code) == (State.EXPIRED, ErrorCode.DEADLINE)
    assert state.stops == [(StopReason.EXPIRED, "")]


async def test_a_task_may_run_for_longer_than_a_lease(make_fleet):
    fleet = await make_fleet(Limits(lease_ms=1_500))
    async with serving(fleet, worker="w1") as state:
        await fleet.submit()
        await state.started.wait()
        idle = await fleet.transport.claim("explore", "w2", slots=1, wait_s=3.5)

        assert idle == []
        assert state.stops == []


async def test_a_task_whose_lease_was_lost_is_stopped_and_its_handler_writes_nothing(hasty_fleet):
    fleet = hasty_fleet
    attempts = []
    second = asyncio.Event()

    async def handle(delivery: Delivery):
        attempts.append(delivery)
        if delivery.claim.lease.attempt == 1:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                return fleet.result(delivery.claim, "too late")
        second.set()
        return fleet.result(delivery.claim, "in time")

    async with serving(fleet, handle) as state:
        request = await fleet.submit()
        while not attempts:
            await asyncio.wait_for(fleet.transport.now_ms(), 5)
        # what a partition does: the server takes the lease away while the worker still holds the task
        await fleet.transport.give_back(attempts[0].claim.lease)
        await asyncio.wait_for(second.wait(), 10)
        result = await fleet.ended(request.task_id)

    assert result.output.text == "in time"
    assert attempts[0].stop_reason is StopReason.LOST
    assert state.counts() == {What.CLAIMED: 2, What.FINISHED: 1, What.LOST: 1}


async def test_a_stopped_worker_gives_its_work_back(fleet):
    request = await fleet.submit()
    async with serving(fleet) as state:
        await state.started.wait()

    record = await fleet.transport.record(request.task_id)
    assert state.stops == [(StopReason.DRAIN, "")]
    assert (record.state, record.lost_leases) == (State.PENDING, 0)
    assert (await fleet.claim_one("w2", wait_s=0)).lease.attempt == 2
    assert state.counts() == {What.CLAIMED: 1, What.GIVEN_BACK: 1}


async def test_work_that_ends_within_the_grace_is_finished(fleet):
    finish = asyncio.Event()
    started = asyncio.Event()

    async def handle(delivery: Delivery):
        started.set()
        await finish.wait()
        return fleet.result(delivery.claim)

    request = await fleet.submit()
    async with serving(fleet, handle, grace_s=10) as state:
        await started.wait()
        state.stop.set()
        finish.set()

    assert (await fleet.transport.record(request.task_id)).state is State.COMPLETED


async def test_a_stopped_worker_takes_nothing_new(fleet, answer):
    async with serving(fleet, answer) as state:
        state.stop.set()
    request = await fleet.submit()

    assert (await fleet.transport.record(request.task_id)).state is State.PENDING


async def test_an_envelope_that_was_tampered_with_is_refused_before_its_handler(make_memory_fleet, answer):
    fleet = await make_memory_fleet()
    handled = []

    async def handle(delivery: Delivery):
        handled.append(delivery)
        return fleet.result(delivery.claim)

    request = await fleet.submit()
    task = fleet.transport._fleet.tasks[request.task_id]
    task.envelope = task.envelope[:-1] + bytes([task.envelope[-1] ^ 1])  # the last byte of the signature
    async with serving(fleet, handle):
        result = await fleet.ended(request.task_id)

    assert (result.status, result.errors[0].code) == (State.ERROR, ErrorCode.BAD_INPUT)
    assert handled == []


async def test_a_result_that_cannot_travel_ends_the_task_with_the_reason(fleet):
    async def handle(delivery: Delivery):
        return fleet.result(delivery.claim).model_copy(update={"output": Output(text="x" * 2_000_000)})

    async with serving(fleet, handle):
        request = await fleet.submit()
        result = await fleet.ended(request.task_id)

    assert (result.status, result.errors[0].code) == (State.ERROR, ErrorCode.INTERNAL)
    assert "limit" in result.errors[0].message


@pytest.mark.parametrize("size", [1, 2_000_000], ids=["as it is", "too large to travel"])
async def test_what_a_handler_had_still_to_tell_stands_before_its_result(fleet, size: int):
    async def handle(delivery: Delivery):
        output = Output(text="x" * size)
        result = fleet.result(delivery.claim).model_copy(update={"output": output})
        return Ending(result, fleet.progress(delivery.claim, "last words"), charge_microusd=7)

    async with serving(fleet, handle):
        request = await fleet.submit(budget={"max_cost_microusd": 100})
        entries = [entry async for entry in fleet.transport.follow(request.trace_id)]

    *_, before, end = [entry.message for entry in entries]
    ledger = await fleet.transport.raise_cap(request.trace_id, 100, by="test")
    assert [event.text for event in before.events] == ["last words"]
    assert (end.status, ledger.spent_microusd) == (State.COMPLETED if size == 1 else State.ERROR, 7)


async def test_two_workers_never_run_the_same_task(fleet):
    runs: Counter[str] = Counter()

    async def handle(delivery: Delivery):
        runs[delivery.claim.lease.task_id] += 1
        await fleet.transport.emit(delivery.claim.lease, fleet.progress(delivery.claim))
        return fleet.result(delivery.claim)

    requests = [fleet.request(deadline_ms=Limits().max_deadline_ms) for _ in range(200)]
    async with serving(fleet, handle, worker="w1"), serving(fleet, handle, worker="w2"):
        await fleet.transport.submit(requests)
        results = [r async for r in fleet.transport.results([r.task_id for r in requests])]

    assert len(results) == 200
    assert set(runs.values()) == {1}


async def test_a_fleet_with_other_limits_keeps_its_leases_by_them(make_fleet):
    fleet = await make_fleet(Limits(lease_ms=800))
    async with serving(fleet) as state:
        request = await fleet.submit()
        await state.started.wait()
        assert await fleet.transport.claim("explore", "w2", slots=1, wait_s=2.0) == []

        assert (await fleet.transport.record(request.task_id)).lost_leases == 0


# What a worker's Redis password can write: the record says another end than the request that was signed.
OVER_AFTER_MS = 2_000


async def record_says_later(raw, fleet, task_id: str, **fields: str) -> None:
    later = int(time.time() * 1000) + 3_600_000
    pairs = [part for pair in {"expires": later, **fields}.items() for part in pair]
    await raw.execute_command("HSET", CellKeys(fleet.name).name("task", task_id), *pairs)


@pytest.mark.redis
async def test_no_task_outlives_its_signed_deadline(make_redis_fleet, redis_server):
    fleet = await make_redis_fleet(Limits(replay_window_ms=OVER_AFTER_MS))
    request = await fleet.submit(deadline_ms=900)
    async with redis.asyncio.Redis.from_url(redis_server.url) as raw:
        await record_says_later(raw, fleet, request.task_id)
    async with serving(fleet) as state:
        async with asyncio.timeout(20):
            result = await fleet.ended(request.task_id)

    assert state.stops == [(StopReason.EXPIRED, "")]
    assert (result.status, result.errors[0].code) == (State.EXPIRED, ErrorCode.DEADLINE)
    assert fleet.transport.limits.lease_ms > 900 + OVER_AFTER_MS  # the keeper would not have said so either


@pytest.mark.redis
async def test_what_ended_is_not_done_again_after_its_signed_deadline(make_redis_fleet, redis_server):
    fleet = await make_redis_fleet(Limits(replay_window_ms=OVER_AFTER_MS))
    done: list[str] = []

    async def handle(delivery: Delivery):
        done.append(delivery.request.task_id)
        return fleet.result(delivery.claim, "done")

    async with serving(fleet, handle), redis.asyncio.Redis.from_url(redis_server.url) as raw:
        request = await fleet.submit(deadline_ms=900)
        await fleet.ended(request.task_id)
        await asyncio.sleep((request.created_at_ms + 900 + OVER_AFTER_MS) / 1000 - time.time() + 0.05)
        keys = CellKeys(fleet.name)
        await raw.execute_command("HDEL", keys.name("task", request.task_id), "result", "ended_by", "finished")
        await record_says_later(raw, fleet, request.task_id, state="running", worker="gone")
        await raw.zadd(keys.name("leases", "explore"), {request.task_id: 1})
        async with asyncio.timeout(20):
            result = await fleet.ended(request.task_id)

    assert done == [request.task_id]
    assert result.status is State.EXPIRED
