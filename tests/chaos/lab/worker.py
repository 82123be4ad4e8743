"""A worker process: the consumer of the fleet, with a handler that does what a `Job` says."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import select
import signal
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import asdict, replace
from typing import Any, cast

from envelope.events import TextDelta
from envelope.lifecycle import State
from envelope.messages import TaskProgress, TaskResult
from transport.base import Lease, Transport, Wait
from transport.consumer import Consumer
from transport.delivery import Delivery, Pause
from transport.errors import TransportError

from .fleet import POOL, Fleet
from .job import Habit, Job, Memory, child_of
from .recorded import Recorded

Outcome = TaskResult | Pause


async def serve(fleet: Fleet, name: str, *, ready: Callable[[], None], slots: int = 4, pool: str = POOL) -> None:
    """Until SIGTERM."""
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    async with fleet.recorded(name) as transport:
        consumer = Consumer(
            cast(Transport, transport),
            pool=pool,
            worker=name,
            slots=slots,
            handle=lambda delivery: work(transport, delivery),
        )
        ready()
        await consumer.run(stop)


class Attempt:
    """One attempt of a task, and what it may write."""

    def __init__(self, transport: Recorded, delivery: Delivery) -> None:
        self.transport = transport
        self.delivery = delivery
        self.lease: Lease = delivery.claim.lease
        self._seqs = itertools.count()

    async def memory(self) -> Memory:
        ref = self.delivery.claim.checkpoint
        return Memory(**json.loads(await self.transport.blobs.get(ref))[1]) if ref else Memory()

    async def remember(self, memory: Memory) -> None:
        blob = await self.transport.blobs.put(json.dumps([self.lease.task_id, asdict(memory)]).encode())
        await self.transport.checkpoint(self.lease, blob)

    async def say(self, text: str, **money: int) -> None:
        progress = TaskProgress(
            **self._ids(), seq=next(self._seqs), at_ms=0, status=State.RUNNING, events=(TextDelta(text=text),)
        )
        await self.transport.emit(self.lease, progress, **money)

    async def turn(self, work_ms: int, cost_microusd: int) -> None:
        """Set money aside, work, and charge what was spent; without money there is nothing to work with."""
        if cost_microusd and await self.transport.reserve(self.lease, cost_microusd) is None:
            return
        await asyncio.sleep(work_ms / 1000)
        await self.say("worked", charge_microusd=cost_microusd, release_microusd=cost_microusd)

    async def spawn(self, job: Job) -> list[str]:
        now_ms = await self.transport.now_ms()  # this process's own clock may be off by minutes
        children = [
            child_of(self.delivery.request, number, Job.of(child), created_at_ms=now_ms)
            for number, child in enumerate(job.children)
        ]
        handles = await self.transport.submit(children, under=self.lease)
        return [handle.task_id for handle in handles]

    async def missing(self, memory: Memory) -> frozenset[str]:
        """Children that have not ended."""
        return frozenset([child for child in memory.children if await self.transport.result(child) is None])

    def result(self, status: State = State.COMPLETED) -> TaskResult:
        return TaskResult(**self._ids(), status=status)

    def _ids(self) -> dict[str, Any]:
        return {"trace_id": self.lease.trace_id, "task_id": self.lease.task_id, "attempt": self.lease.attempt}


async def work(transport: Recorded, delivery: Delivery) -> Outcome:
    job, attempt = Job.of(delivery.request.input.params), Attempt(transport, delivery)
    return await HABITS[job.habit](attempt, job)


async def plain(attempt: Attempt, job: Job) -> Outcome:
    """Turn by turn from the last checkpoint on."""
    memory = await attempt.memory()
    if job.children and not memory.children:
        memory = replace(memory, children=await attempt.spawn(job))
        await attempt.remember(memory)
    for turn in range(memory.turn, len(job.turns_ms)):
        await attempt.turn(job.turns_ms[turn], job.cost_microusd)
        memory = replace(memory, turn=turn + 1)
        await attempt.remember(memory)
    missing = await attempt.missing(memory) if job.parks else frozenset[str]()
    return Pause(Wait(children=missing)) if missing else attempt.result()


async def deadly(_attempt: Attempt, _job: Job) -> TaskResult:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("nobody survives SIGKILL")


async def stubborn(attempt: Attempt, job: Job) -> TaskResult:
    holding = asyncio.get_running_loop().run_in_executor(None, hold, job.hold_ms)
    while not holding.done():
        try:
            await asyncio.shield(holding)
        except asyncio.CancelledError:
            continue  # this is what being stubborn means
    return attempt.result()


async def blocking(attempt: Attempt, job: Job) -> TaskResult:
    hold(job.hold_ms)
    return attempt.result()


def hold(for_ms: int) -> None:
    """Block the thread. (`time.sleep` sleeps until an absolute time, which faketime makes an invalid one of.)"""
    select.select([], [], [], for_ms / 1000)


async def forsaken(attempt: Attempt, job: Job) -> Outcome:
    return await plain(attempt, job) if attempt.lease.attempt > 1 else await forever()


async def echoing(attempt: Attempt, job: Job) -> Outcome:
    """The consumer finishes it once more."""
    memory = Memory(children=await attempt.spawn(job))
    assert memory.children == await attempt.spawn(job)
    for _ in range(2):
        await attempt.remember(memory)
    await attempt.transport.finish(attempt.lease, attempt.result())
    return attempt.result()


async def zombie(attempt: Attempt, job: Job) -> Outcome:
    """What a task without manners does when its lease is gone: every write that there is."""
    if attempt.lease.attempt > 1:
        return await plain(attempt, job)
    try:
        return await forever()
    except asyncio.CancelledError:
        for write in WRITES.values():
            with suppress(TransportError):  # the history has it
                await write(attempt, job)
        raise


async def forever() -> TaskResult:
    await asyncio.Event().wait()
    raise AssertionError("nobody sets this event")


HABITS: dict[Habit, Callable[[Attempt, Job], Awaitable[Outcome]]] = {
    Habit.PLAIN: plain,
    Habit.DEADLY: deadly,
    Habit.STUBBORN: stubborn,
    Habit.BLOCKING: blocking,
    Habit.FORSAKEN: forsaken,
    Habit.ZOMBIE: zombie,
    Habit.ECHOING: echoing,
}

# Every write that takes a lease, by its name in the history.
WRITES: dict[str, Callable[[Attempt, Job], Awaitable[Any]]] = {
    "emit": lambda attempt, job: attempt.say("I am not dead", charge_microusd=1),
    "reserve": lambda attempt, job: attempt.transport.reserve(attempt.lease, 1),
    "checkpoint": lambda attempt, job: attempt.remember(Memory(turn=99)),
    "spawn": lambda attempt, job: attempt.spawn(Job(children=(Job().plain(),))),
    "park": lambda attempt, job: attempt.transport.park(attempt.lease, Wait(asks=frozenset({"anyone there?"}))),
    "retry": lambda attempt, job: attempt.transport.retry(attempt.lease, delay_ms=1, reason="let me"),
    "give_back": lambda attempt, job: attempt.transport.give_back(attempt.lease),
    "finish": lambda attempt, job: attempt.transport.finish(attempt.lease, attempt.result()),
}
