"""What the driver of a goal or a batch stands on: its events, the tasks that it submits, its time.

A driver is itself a task. It keeps nothing that it could not find again: when its process is killed, another one runs
it from the start, and the content keys of what it submits lead it to the same tasks. What it saves only spares that one
the way back.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from envelope.budget import Metrics
from envelope.errors import CODES, BadSignature, DecodeError
from envelope.events import ChildEnded, ChildSpawned, Event, WarningRaised
from envelope.lifecycle import State
from envelope.messages import ErrorInfo, TaskProgress, TaskRequest, TaskResult
from envelope.scope import narrow
from envelope.tracing.spans import link_attempt
from repo.fairness import Threads
from repo.mirror import Mirror
from transport.base import Handle, Lease, Transport
from transport.consumer import Delivery
from transport.errors import NotFound, QueueFull, TransportError
from transport.outbox import Outbox

from .metrics import OrchestratorMetrics
from .mirrors import MirrorsAtWork
from .repositories import fetch_mirror
from .submit import DRIVERS, repeated
from .uploads import Weighed

# About 150 bytes each: far from the size limit of a message.
EVENTS_PER_MESSAGE = 500
# Signed and placed in about 0.1 s, in which no other driver of the process runs.
SUBMITTED_AT_ONCE = 100
# Depth is 1 and 64 children may be in flight: a shard that has sent out more is summed up too low, and stops nothing.
MAX_TASKS_PER_SHARD = 1_000
# Sandboxes are killed, not asked: two hundred of them are gone within this time.
STOP_WAIT_S = 10.0


T = TypeVar("T")


def completed(result: TaskResult) -> bool:
    return result.status is State.COMPLETED


@dataclass(frozen=True, slots=True)
class Work:
    """A task to be, and whether the result of an earlier one under the same key may stand for it.

    `tries`: this one among those that its driver has made. What somebody else did before is none of them.
    """

    key: str  # what the driver knows it by
    request: TaskRequest
    title: str
    reusable: Callable[[TaskResult], bool] = completed
    tries: int = 1

    def after(self, foreign_task_id: str) -> Work:
        """The same work, which somebody else did in vain."""
        return replace(self, request=repeated(self.request, foreign_task_id))

    def again(self, dead_task_id: str) -> Work:
        """The same work once more."""
        return replace(self.after(dead_task_id), tries=self.tries + 1)


@dataclass(frozen=True, slots=True)
class Ended:
    """`work`: as it was done in the end, perhaps `after` what others had done in vain. `found`: it was there before,
    of somebody else or of an attempt of this driver before this one.

    `cost_microusd` is of the work's whole trace, when it has one of its own, and nothing when it was reused.
    """

    work: Work
    result: TaskResult
    reused: bool
    cost_microusd: int
    found: bool = False


@dataclass(frozen=True, slots=True)
class DriverContext:
    """What all drivers of a process share."""

    transport: Transport
    cache_dir: Path
    metrics: OrchestratorMetrics
    mirrors: MirrorsAtWork = field(default_factory=MirrorsAtWork)
    threads: Threads = field(default_factory=Threads)
    read_only: bool = False  # nothing is driven that could write


@dataclass(slots=True)
class Driver:
    """One claimed goal or batch. `skew_ms` is the queue's clock less this process's monotonic one.

    `started_at_ms` is when the first attempt started, of which this may be a later one.
    """

    context: DriverContext
    delivery: Delivery
    skew_ms: int
    started_at_ms: int
    outbox: Outbox
    _seq: int = 0
    _emitting: asyncio.Lock = field(default_factory=asyncio.Lock)
    _live: dict[str, _Placed] = field(default_factory=dict[str, "_Placed"])  # submitted here, and not seen to end
    met: set[str] = field(default_factory=set[str])  # traces of all that this attempt has submitted, or found again
    _weighed: Weighed = field(default_factory=Weighed)  # of what `run` does now
    _stopped: bool = False
    _has_waited_for_room: bool = False

    @property
    def request(self) -> TaskRequest:
        return self.delivery.request

    @property
    def transport(self) -> Transport:
        return self.context.transport

    @property
    def now_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000 + self.skew_ms

    @property
    def remaining_ms(self) -> int:
        """Time left of the deadline; at least a second, since a request cannot ask for nothing."""
        return max(1_000, self.delivery.claim.expires_at_ms - self.now_ms)

    async def aside(self, work: Callable[[], T]) -> T:
        """Work on a stranger's text that may take seconds: all drivers of the process go on meanwhile."""
        return await self.context.threads.run(self.request.tenant, work)

    async def mirror(self, bundle_ref: str, base: str) -> Mirror:
        """The repository in a bundle blob; it stays for as long as this driver works."""
        use = self.context.mirrors.of(self.delivery.claim.lease, self.request.tenant)
        return await fetch_mirror(
            self.transport.blobs, self.context.cache_dir, bundle_ref=bundle_ref, base=base, use=use
        )

    async def report(self, *events: Event, gets_on: bool = False) -> None:
        """Append to the trace's stream; readers see the events in the order of the calls."""
        async with self._emitting:
            for start in range(0, len(events), EVENTS_PER_MESSAGE):
                await self._emit(events[start : start + EVENTS_PER_MESSAGE], gets_on=gets_on)

    async def save(self, blob: str) -> None:
        """What a later attempt goes on from; with it this one has come to something."""
        await self.transport.checkpoint(self.delivery.claim.lease, blob)
        async with self._emitting:
            await self._emit((), gets_on=True)

    async def _emit(self, events: tuple[Event, ...], *, gets_on: bool) -> None:
        lease = self.delivery.claim.lease
        progress = TaskProgress(
            trace_id=lease.trace_id,
            task_id=lease.task_id,
            attempt=lease.attempt,
            seq=self._seq,
            at_ms=self.now_ms,
            status=State.RUNNING,
            events=events,
        )
        self._seq += 1
        await self.transport.emit(lease, progress, gets_on=gets_on)

    async def run(self, works: Iterable[Work]) -> AsyncGenerator[Ended]:
        """Do all works at once; each ends exactly once, in the order in which they end. `BadInput`, and none is begun,
        where what this driver does at once would be too large for the queue."""
        waiting: list[Work] = list(works)
        heavy_bytes = await self._weigh(waiting)
        try:
            async with aclosing(self._run(waiting)) as endings:
                async for ended in endings:
                    yield ended
        finally:
            self._weighed.heavy_bytes -= heavy_bytes

    async def _run(self, waiting: list[Work]) -> AsyncGenerator[Ended]:
        while waiting:
            placed: dict[str, list[_Placed]] = {}
            for place in await self._submit(waiting):
                placed.setdefault(place.handle.task_id, []).append(place)
            waiting = []
            async for result in self.outbox.results(placed):
                link_attempt(result.task_id, result.attempt, result.trace_id)
                cost_microusd = await self._report_ended(result, placed[result.task_id][0])
                for place in placed[result.task_id]:
                    if place.foreign and not place.work.reusable(result):
                        waiting.append(place.work.after(result.task_id))  # somebody else's, and it came to nothing
                    else:
                        yield Ended(place.work, result, place.foreign, cost_microusd, found=place.handle.existing)

    async def _weigh(self, works: Sequence[Work]) -> int:
        weighed = Weighed()
        for number, work in enumerate(works, 1):
            weighed.add_task(work.request)
            if number % SUBMITTED_AT_ONCE == 0:
                await asyncio.sleep(0)  # others of this process go on meanwhile
        self._weighed.add_heavy(weighed.heavy_bytes)
        return weighed.heavy_bytes

    async def is_still_ours(self) -> bool:
        """Does the queue still know this very attempt? Attempts of a task that was submitted again count anew."""
        claim = self.delivery.claim
        try:
            record = await self.transport.record(claim.lease.task_id)
        except NotFound:
            return False
        return (record.accepted_at_ms, record.attempt) == (claim.accepted_at_ms, claim.lease.attempt)

    def live_traces(self) -> dict[str, str]:
        """Of what this driver submitted and has not seen the end of, in traces of their own; by the works' keys."""
        own = self.request.trace_id
        return {one.work.key: one.handle.trace_id for one in self._live.values() if one.handle.trace_id != own}

    async def stop_all(self, reason: str) -> None:
        """Cancel what still lives, and wait for its end: who waits for this driver must find no sandbox of its tasks.

        Bounded: a task whose worker is gone ends later, by its lease.
        """
        for task_id in sorted(self._live):
            with suppress(NotFound):  # forgotten in a failover: it does not run
                await self.transport.cancel(task_id, by=self.request.task_id, reason=reason)
        with suppress(TimeoutError, NotFound):
            async with asyncio.timeout(STOP_WAIT_S):
                async for _ in self.transport.results(self._live):
                    pass

    async def _submit(self, works: Sequence[Work]) -> list[_Placed]:
        placing = asyncio.create_task(self._placed(works))
        try:
            placed = await asyncio.shield(placing)
        except asyncio.CancelledError:
            # The queue may have them all the same, and only its answer tells `stop_all` what to cancel.
            self._stopped = True
            with suppress(TransportError):
                await placing
            raise
        for start in range(0, len(placed), EVENTS_PER_MESSAGE):
            some = placed[start : start + EVENTS_PER_MESSAGE]
            await self.report(*(_spawned(place, self.request.trace_id) for place in some))
        return placed

    async def _placed(self, works: Sequence[Work]) -> list[_Placed]:
        """In parts, and smaller ones where the queue has no room: a tenant's line may be shorter than a batch."""
        placed: list[_Placed] = []
        size = min(len(works), SUBMITTED_AT_ONCE)
        while len(placed) < len(works):
            part = works[len(placed) : len(placed) + size]
            try:
                handles = await self._accepted([work.request for work in part])
            except QueueFull:
                if self._stopped or size == 1:
                    raise
                size = (size + 1) // 2
                continue
            placed += [await self._place(work, handle) for work, handle in zip(part, handles, strict=True)]
        return placed

    async def _accepted(self, requests: Sequence[TaskRequest]) -> list[Handle]:
        """Children are a write of this attempt's, so that a stale one starts none; shards are roots of their own."""
        lease = self.delivery.claim.lease
        children = [request for request in requests if request.parent_task_id]
        roots = [request for request in requests if not request.parent_task_id]
        for request in roots:
            narrow(self.request.auth_scope, request.auth_scope)  # of children the queue knows the parent
        handles = {
            request.task_id: handle
            for under, group in ((lease, children), (None, roots))
            for request, handle in zip(group, await self._accepted_together(group, under), strict=True)
        }
        return [handles[request.task_id] for request in requests]

    async def _accepted_together(self, requests: Sequence[TaskRequest], under: Lease | None) -> list[Handle]:
        """What is accepted is submitted again by `run`, should the server forget it in a failover.

        One waits until the queue has room for it. `QueueFull` at once for several, and when the driver is to stop.
        """
        while requests:
            try:
                return await self.outbox.submit([self._as_of_now(request) for request in requests], under=under)
            except QueueFull as e:
                if self._stopped or len(requests) > 1:
                    raise
                await self._say_that_it_waits(e)
                await asyncio.sleep(e.retry_after_s)
        return []

    def _as_of_now(self, request: TaskRequest) -> TaskRequest:
        """The queue refuses what was made long ago; and what has waited for its turn has no more time than we have."""
        deadline_ms = min(request.deadline_ms, self.remaining_ms)
        return request.model_copy(update={"created_at_ms": self.now_ms, "deadline_ms": deadline_ms})

    async def _say_that_it_waits(self, full: QueueFull) -> None:
        if not self._has_waited_for_room:
            self._has_waited_for_room = True
            with suppress(QueueFull):  # there may be no room for a word, either
                await self.report(
                    WarningRaised(message=f"it waits until there is room: {full.message}", hint=full.hint)
                )

    async def _place(self, work: Work, handle: Handle) -> _Placed:
        """What was done before for another driver, without success, or for nobody's, is submitted once more."""
        while handle.existing and await self._is_foreign(handle):
            result = await self.transport.result(handle.task_id)
            if await self._is_drivers(handle) and (result is None or work.reusable(result)):
                return _Placed(work, handle, foreign=True)
            work = work.after(handle.task_id)
            [handle] = await self._accepted([work.request])
        if not handle.existing:
            self.context.metrics.count_submitted(work.request.recipient)
        fresh = not handle.existing or await self.transport.result(handle.task_id) is None
        placed = self._live[handle.task_id] = _Placed(work, handle, foreign=False, fresh=fresh)
        self.met.add(handle.trace_id)
        return placed

    async def _is_drivers(self, handle: Handle) -> bool:
        """Only drivers make their keys of the work: whoever else may submit could have chosen one."""
        try:
            found = await self.transport.request(handle.task_id)
            above = found.parent_task_id or found.batch_id
            return bool(above) and (await self.transport.request(above)).recipient == DRIVERS
        except (BadSignature, DecodeError, NotFound):
            return False

    async def _is_foreign(self, handle: Handle) -> bool:
        """An existing task may be our own: this driver was killed and runs again."""
        if handle.trace_id == self.request.trace_id:
            return False
        return (await self.transport.record(handle.task_id)).batch_id != self.request.task_id

    async def _report_ended(self, result: TaskResult, place: _Placed) -> int:
        cost_microusd = 0 if place.foreign else await self._cost_of(result, place.work.request.recipient)
        ended = ChildEnded(
            child_task_id=result.task_id,
            state=result.status,
            reused=place.foreign,
            cost_microusd=cost_microusd,
            error=result.errors[0].message if result.errors else "",
        )
        await self.report(ended, gets_on=place.fresh)
        self._live.pop(result.task_id, None)  # last: what it has cost is known from here on
        return cost_microusd

    async def _cost_of(self, result: TaskResult, recipient: str) -> int:
        """Children in this driver's own trace tell their cost there; those in a shard's trace are seen by nobody.

        A goal of its own has asked no model itself, but its agents have.
        """
        told = result.metrics.cost_microusd
        if result.trace_id == self.request.trace_id:
            return told
        if result.metrics.turns or recipient == DRIVERS:
            records = await self.transport.tasks(trace_id=result.trace_id, limit=MAX_TASKS_PER_SHARD)
            ids = [record.task_id for record in records if record.task_id != result.task_id]
            others = [await self.transport.result(task_id) for task_id in ids]
            told += sum(other.metrics.cost_microusd for other in others if other)
        # Attempts that were lost have paid, too, and no result says so.
        return max(told, (await self.transport.ledger(result.trace_id)).spent_microusd)


@dataclass(frozen=True, slots=True)
class _Placed:
    """`foreign`: the task was submitted by somebody else, earlier, for the same work. `fresh`: no attempt of this
    driver has seen its end."""

    work: Work
    handle: Handle
    foreign: bool
    fresh: bool = False


def _spawned(place: _Placed, own_trace_id: str) -> ChildSpawned:
    handle = place.handle
    return ChildSpawned(
        child_task_id=handle.task_id,
        agent=place.work.request.agent,
        title=place.work.title,
        trace_id="" if handle.trace_id == own_trace_id else handle.trace_id,
    )


async def open_driver(delivery: Delivery, context: DriverContext) -> Driver:
    now_ms = await context.transport.now_ms()
    skew_ms = now_ms - time.monotonic_ns() // 1_000_000
    record = await context.transport.record(delivery.request.task_id)
    started_at_ms = record.started_at_ms or delivery.claim.started_at_ms
    return Driver(context, delivery, skew_ms, started_at_ms, Outbox(context.transport))


def ended_with(driver: Driver, *errors: ErrorInfo, **fields: Any) -> TaskResult:
    """The driver's result, in the state that its first error says. Its metrics are its own; children have theirs.

    A cancelled tree reaches the children first: what a driver then hears of them must not make its own end an error.
    """
    claim = driver.delivery.claim
    return TaskResult(
        trace_id=claim.lease.trace_id,
        task_id=claim.lease.task_id,
        attempt=claim.lease.attempt,
        status=CODES[errors[0].code].state if errors else State.COMPLETED,
        errors=errors,
        metrics=Metrics(
            latency_ms=max(0, driver.now_ms - driver.started_at_ms),
            queue_ms=max(0, driver.started_at_ms - claim.accepted_at_ms),
        ),
        **fields,
    )
