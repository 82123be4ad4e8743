"""The moves of a fleet in memory: what the Redis scripts do, in the same words."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence

from envelope.agents import WorkerCard
from envelope.codec import encode
from envelope.deadline import expires_at_ms
from envelope.errors import ErrorCode
from envelope.events import StateChanged
from envelope.lifecycle import TERMINAL, State, check_move
from envelope.messages import ErrorInfo, Metrics, TaskProgress, TaskRequest, TaskResult

from ..admission import parent_gone
from ..base import Claim, Handle, Lease, PoolStats
from ..limits import Limits
from .tasks import Pool, Task, Trace

STATUS = {ErrorCode.CANCELLED: State.CANCELLED, ErrorCode.DEADLINE: State.EXPIRED, ErrorCode.POISON: State.ERROR}


class Fleet:
    LIVE = frozenset(State) - TERMINAL

    def __init__(self, clock: Callable[[], int], limits: Limits) -> None:
        self.now = clock
        self.limits = limits
        self.tasks: dict[str, Task] = {}
        self.traces: dict[str, Trace] = {}
        self.cards: dict[str, tuple[int, WorkerCard]] = {}
        self.counters: Counter[str] = Counter()
        self.pulse = asyncio.Event()  # set, and replaced, at every change that somebody may wait for
        self._pools: defaultdict[str, Pool] = defaultdict(Pool)
        self._once: dict[tuple[str, str], tuple[int, Handle]] = {}
        self._bells: defaultdict[str, threading.Event] = defaultdict(threading.Event)
        self._numbers = 0  # of entries, over all traces
        self._ended = 0

    def bell_of(self, worker: str) -> threading.Event:
        return self._bells[worker]

    # -- submission

    def submit(self, batch: Sequence[tuple[TaskRequest, bytes]]) -> list[Handle]:
        for at, (request, _) in enumerate(batch):
            earlier = {before.task_id for before, _ in batch[:at]} if request.parent_task_id else set[str]()
            if request.parent_task_id and request.parent_task_id not in earlier and not self._first(request):
                parent = self.tasks.get(request.parent_task_id)
                if parent is None or parent.state not in self.LIVE or parent.cancel_reason is not None:
                    raise parent_gone(request)
        handles = [self._accept(request, envelope) for request, envelope in batch]
        self._changed()
        return handles

    def _first(self, request: TaskRequest) -> Handle | None:
        if request.task_id in self.tasks:
            return Handle(request.task_id, request.trace_id)
        until, handle = self._once.get((request.tenant, request.idempotency_key), (0, None))
        return handle if request.idempotency_key and until > self.now() else None

    def _accept(self, request: TaskRequest, envelope: bytes) -> Handle:
        if first := self._first(request):
            return first
        now = self.now()
        parent = self.tasks.get(request.parent_task_id or "")
        limit = parent.expires_at_ms if parent else None
        task = Task(request, envelope, now, expires_at_ms(now, request.deadline_ms, parent_expires_at_ms=limit))
        self.tasks[task.id] = task
        trace = self.traces.setdefault(task.trace_id, Trace(task.id, request.budget.max_cost_microusd))
        trace.tasks.append(task.id)
        if parent:
            parent.children.append(task.id)
        if request.idempotency_key:
            handle = Handle(task.id, task.trace_id, existing=True)
            self._once[request.tenant, request.idempotency_key] = (now + self.limits.idempotency_ms, handle)
        self._pools[task.pool].put(task.flow, task.id)
        return Handle(task.id, task.trace_id)

    # -- starts

    def claim(self, pool: str, worker: str, slots: int) -> list[Claim]:
        self.reap()
        claims: list[Claim] = []
        while len(claims) < slots and (task_id := self._pools[pool].take()):
            if self.tasks[task_id].state is State.PENDING:
                claims.append(self._start(self.tasks[task_id], worker))
        return claims

    def _start(self, task: Task, worker: str) -> Claim:
        now = self.now()
        task.attempt += 1
        task.started_at_ms = task.started_at_ms or now
        task.lease = Lease(task.id, task.trace_id, task.pool, worker, task.attempt)
        task.lease_ends_at_ms = now + self.limits.lease_ms
        self._move(task, State.RUNNING, worker=worker)
        return Claim(
            task.lease, task.envelope, task.accepted_at_ms, now, task.expires_at_ms, task.lost_leases, task.checkpoint
        )

    def give_back(self, task: Task) -> None:
        if task.cancel_reason is not None:
            self._finish_by_queue(task, ErrorCode.CANCELLED, task.cancel_reason)
        else:
            self._requeue(task, "its worker gave it back")

    def _requeue(self, task: Task, reason: str) -> None:
        task.lease = None
        self._pools[task.pool].put(task.flow, task.id, head=True)
        self._move(task, State.PENDING, reason=reason)

    # -- ends

    def finish(self, task: Task, result: TaskResult, message: bytes) -> None:
        """The one terminal move, for a task and what is still alive below it."""
        self.stop(task.children, "its parent ended")
        self._close(task, result, message)

    def stop(self, task_ids: Sequence[str], reason: str) -> int:
        queue, alive = [self.tasks[task_id] for task_id in task_ids], 0
        for task in queue:
            if task.state not in self.LIVE:
                continue
            alive += 1
            queue.extend(self.tasks[child] for child in task.children)
            if task.state is State.RUNNING and task.lease:
                task.cancel_reason = reason if task.cancel_reason is None else task.cancel_reason
                self._bells[task.lease.worker].set()
            else:
                self._close_by_queue(task, ErrorCode.CANCELLED, reason)
        return alive

    def reap(self) -> int:
        """Bring everything up to now: deadlines first, then leases."""
        now, touched = self.now(), 0
        for task in list(self.tasks.values()):
            running = task.state is State.RUNNING
            if task.state not in self.LIVE:  # perhaps only since this loop began: a child ends with its parent
                continue
            if now >= task.expires_at_ms + (self.limits.expiry_grace_ms if running else 0):
                self._finish_by_queue(task, ErrorCode.DEADLINE, "the task did not end before its deadline")
            elif running and now >= task.lease_ends_at_ms:
                self._lose(task)
            else:
                continue
            touched += 1
        return touched

    def next_end_ms(self) -> int | None:
        """Milliseconds until a lease or a deadline ends, when there is any."""
        now = self.now()
        ends = [
            min(task.lease_ends_at_ms, task.expires_at_ms + self.limits.expiry_grace_ms)
            if task.state is State.RUNNING
            else task.expires_at_ms
            for task in self.tasks.values()
            if task.state in self.LIVE
        ]
        return max(0, min(ends) - now) if ends else None

    def _lose(self, task: Task) -> None:
        task.lost_leases += 1
        self.counters["lost_leases"] += 1
        if task.cancel_reason is not None:
            self._finish_by_queue(task, ErrorCode.CANCELLED, task.cancel_reason)
        elif self.now() >= task.expires_at_ms:
            self._finish_by_queue(task, ErrorCode.DEADLINE, "the task did not end before its deadline")
        elif task.lost_leases >= self.limits.poison_after:
            self.counters["poisoned"] += 1
            reason = f"the task was given up after {task.lost_leases} lost leases"
            self._finish_by_queue(task, ErrorCode.POISON, reason)
        else:
            self._requeue(task, "its worker was lost")

    def _finish_by_queue(self, task: Task, code: ErrorCode, text: str) -> None:
        self.stop(task.children, "its parent ended")
        self._close_by_queue(task, code, text)

    def _close_by_queue(self, task: Task, code: ErrorCode, text: str) -> None:
        result = TaskResult(
            trace_id=task.trace_id,
            task_id=task.id,
            attempt=task.attempt,
            status=STATUS[code],
            errors=(ErrorInfo.of(code, text),),
            metrics=Metrics(cost_microusd=task.spent_microusd),
        )
        self._close(task, result, encode(result))

    def _close(self, task: Task, result: TaskResult, message: bytes) -> None:
        check_move(task.state, result.status)
        task.state = result.status
        task.result = message
        task.finished_at_ms = self.now()
        self._ended += 1
        task.ended_as = self._ended
        self.append(task, result)

    # -- what others see

    def append(self, task: Task, message: TaskProgress | TaskResult) -> None:
        self._numbers += 1
        entries = self.traces[task.trace_id].entries
        entries.append((self._numbers, message))
        if len(entries) > self.limits.max_entries:
            entries.popleft()
        self._changed()

    def stats(self, pool: str) -> PoolStats:
        tasks = [task for task in self.tasks.values() if task.pool == pool]
        ready = [task for task in tasks if task.state is State.PENDING]
        oldest = min((task.accepted_at_ms for task in ready), default=self.now())
        running = sum(task.state is State.RUNNING for task in tasks)
        return PoolStats(pool, len(ready), running, (self.now() - oldest) / 1000)

    def _move(self, task: Task, state: State, *, reason: str = "", worker: str = "") -> None:
        check_move(task.state, state)
        task.state = state
        self.append(
            task,
            TaskProgress(
                trace_id=task.trace_id,
                task_id=task.id,
                attempt=task.attempt,
                seq=-1,
                at_ms=self.now(),
                status=state,
                events=(StateChanged(state=state, reason=reason, worker=worker),),
            ),
        )

    def _changed(self) -> None:
        self.pulse.set()
        self.pulse = asyncio.Event()
