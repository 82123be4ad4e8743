"""The transport inside one process: the same promises as on Redis, nothing durable. For tests and trials.

All moves happen on the event loop, so each is atomic; only `MemoryKeeper` runs in another thread, and touches one
field of one task at a time.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import suppress

from envelope.agents import WorkerCard
from envelope.codec import decode_request, decode_result, encode
from envelope.lifecycle import State
from envelope.messages import TaskProgress, TaskRequest, TaskResult
from envelope.signature import Keyring

from .. import admission
from ..base import Blobs, Claim, Entry, Handle, Lease, LeaseKeeper, Ledger, PoolStats, TaskRecord
from ..blobs import MemoryBlobs
from ..errors import Fenced, NotFound
from ..keyring import fresh
from ..limits import Limits
from .fleet import Fleet
from .keeper import MemoryKeeper
from .tasks import Task


def _real_clock_ms() -> int:
    return time.time_ns() // 1_000_000


class MemoryTransport:
    """`clock` gives the time in ms; a test may pass its own and move it."""

    def __init__(
        self,
        *,
        clock: Callable[[], int] = _real_clock_ms,
        limits: Limits | None = None,
        keyring: Keyring | None = None,
    ) -> None:
        self.blobs: Blobs = MemoryBlobs()
        self.keyring = keyring or fresh()
        self.limits = limits or Limits()
        self._fleet = Fleet(clock, self.limits)

    # -- for those who want work done

    async def submit(self, requests: Sequence[TaskRequest]) -> list[Handle]:
        await admission.check_scopes(requests, self.request)
        return self._fleet.submit([(request, encode(request, keyring=self.keyring)) for request in requests])

    async def cancel(self, task_id: str, *, by: str, reason: str) -> int:
        self._task(task_id)
        return self._fleet.stop([task_id], reason)

    async def follow(self, trace_id: str, *, after: str = "0") -> AsyncIterator[Entry]:
        trace = self._fleet.traces.get(trace_id)
        if trace is None:
            raise NotFound(f"there is no trace {trace_id}")
        seen = int(after.partition("-")[0])
        while True:
            pulse = self._fleet.pulse
            for number, message in [entry for entry in trace.entries if entry[0] > seen]:
                seen = number
                yield Entry(f"{number}-0", message)
                if isinstance(message, TaskResult) and message.task_id == trace.root:
                    return
            if self._fleet.tasks[trace.root].state not in Fleet.LIVE:
                return
            await pulse.wait()

    async def results(self, task_ids: Iterable[str]) -> AsyncIterator[TaskResult]:
        wanted = {task_id: self._task(task_id) for task_id in task_ids}
        while wanted:
            pulse = self._fleet.pulse
            ended = [task for task in wanted.values() if task.result]
            for task in sorted(ended, key=lambda task: (task.finished_at_ms, task.ended_as)):
                del wanted[task.id]
                yield decode_result(task.result)
            if wanted and not ended:
                await pulse.wait()

    async def request(self, task_id: str) -> TaskRequest:
        return decode_request(self._task(task_id).envelope, keyring=self.keyring)

    async def result(self, task_id: str) -> TaskResult | None:
        found = self._task(task_id).result
        return decode_result(found) if found else None

    async def record(self, task_id: str) -> TaskRecord:
        return self._task(task_id).record()

    async def tasks(self, *, trace_id: str | None = None, limit: int = 100) -> list[TaskRecord]:
        if trace_id is None:
            ids = [trace.root for trace in reversed(self._fleet.traces.values())]
        else:
            trace = self._fleet.traces.get(trace_id)
            ids = trace.tasks if trace else []
        return [self._fleet.tasks[task_id].record() for task_id in ids[:limit]]

    # -- for those who do it

    async def claim(self, pool: str, worker: str, *, slots: int, wait_s: float) -> list[Claim]:
        loop = asyncio.get_running_loop()
        until = loop.time() + wait_s
        while True:
            pulse = self._fleet.pulse
            claims = self._fleet.claim(pool, worker, slots)
            left_s = until - loop.time()
            if claims or left_s <= 0:
                return claims
            due_ms = self._fleet.next_end_ms()
            pause_s = left_s if due_ms is None else min(left_s, (due_ms + 1) / 1000)
            with suppress(TimeoutError):
                async with asyncio.timeout(pause_s):
                    await pulse.wait()

    def keeper(self) -> LeaseKeeper:
        return MemoryKeeper(self._fleet)

    async def emit(self, lease: Lease, progress: TaskProgress, *, charge_microusd: int = 0) -> Ledger:
        encode(progress)  # too large must fail here as it does on the wire
        task = self._held(lease)
        task.spent_microusd += charge_microusd
        trace = self._fleet.traces[task.trace_id]
        trace.spent_microusd += charge_microusd
        self._fleet.append(task, progress)
        return Ledger(trace.spent_microusd, trace.cap_microusd)

    async def checkpoint(self, lease: Lease, blob: str) -> None:
        self._held(lease).checkpoint = blob

    async def finish(self, lease: Lease, result: TaskResult) -> None:
        task = self._fleet.tasks.get(lease.task_id)
        if task and task.ended_by == lease:
            return
        message = encode(result)
        task = self._held(lease)
        task.ended_by = lease
        self._fleet.finish(task, result, message)

    async def give_back(self, lease: Lease) -> None:
        self._fleet.give_back(self._held(lease))

    # -- for whoever is alive

    async def reap(self) -> int:
        return self._fleet.reap()

    async def announce(self, card: WorkerCard, *, ttl_s: float) -> None:
        self._fleet.cards[card.worker] = (self._fleet.now() + int(ttl_s * 1000), card)

    async def workers(self) -> list[WorkerCard]:
        now = self._fleet.now()
        return [card for _, (until, card) in sorted(self._fleet.cards.items()) if until > now]

    async def stats(self, pools: Sequence[str]) -> list[PoolStats]:
        return [self._fleet.stats(pool) for pool in pools]

    async def counters(self) -> dict[str, int]:
        return dict(self._fleet.counters)

    async def now_ms(self) -> int:
        return self._fleet.now()

    async def close(self) -> None:
        return None

    def _task(self, task_id: str) -> Task:
        if task_id not in self._fleet.tasks:
            raise NotFound(f"there is no task {task_id}")
        return self._fleet.tasks[task_id]

    def _held(self, lease: Lease) -> Task:
        task = self._fleet.tasks.get(lease.task_id)
        if task is None or task.state is not State.RUNNING or task.lease != lease:
            self._fleet.counters["fenced_writes"] += 1
            raise Fenced(f"the lease on {lease.task_id} (attempt {lease.attempt}) is no longer {lease.worker}'s")
        return task
