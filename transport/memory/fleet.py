"""The state of a fleet in memory, and the few moves that all others are made of."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Collection
from dataclasses import replace

from envelope.agents import DRIVERS, WorkerCard
from envelope.events import StateChanged
from envelope.lifecycle import State, check_move
from envelope.messages import TaskProgress, TaskResult

from ..base import Allotment, DeadLetter, Handle, Lease
from ..errors import Fenced, no_task
from ..limits import Limits
from ..money import Ledger
from ..notices import Happening, Kind
from .line import Line
from .tasks import Purse, Session, Task, Trace


class LeaseClock:
    """The clock by which leases end; it stands still while nobody looks. `redis/scripts/reaping.lua` says why.

    A process whose store is in it cannot lose it, but may be stopped, or its host may sleep: it is the same to a lease.
    """

    def __init__(self, lease_ms: int) -> None:
        self.behind_ms = 0  # the process's clock
        self._lease_ms = lease_ms
        self._grain_ms = -(-lease_ms // 60)
        self._longest_gap_ms = max(lease_ms / 3, 200)
        self._looked_at_ms: int | None = None
        self._floor_ms = 0  # what it showed after the last gap, and the least that it shows
        self._lock = threading.Lock()

    def look(self, now_ms: int) -> int:
        """What it shows; called by whoever reaps, or gives or renews a lease, in any thread."""
        with self._lock:
            looked_at_ms = now_ms if self._looked_at_ms is None else self._looked_at_ms
            passed_ms = now_ms - looked_at_ms
            if passed_ms > self._longest_gap_ms:
                self._step_over_gap(self._time(looked_at_ms), now_ms)
            elif passed_ms < 0:
                self.behind_ms += passed_ms
            if self._looked_at_ms is None or passed_ms < 0 or passed_ms >= self._grain_ms:
                self._looked_at_ms = now_ms
            return self._time(now_ms)

    def _time(self, moment_ms: int) -> int:
        return max(self._floor_ms, moment_ms - self.behind_ms)

    def _step_over_gap(self, last_ms: int, now_ms: int) -> None:
        if last_ms >= self._floor_ms + self._lease_ms:
            self._floor_ms = last_ms + self._grain_ms + 1
            self.behind_ms = now_ms - self._floor_ms + self._lease_ms // 4
        else:
            self._floor_ms = last_ms + self._lease_ms // 6
            self.behind_ms = now_ms - self._floor_ms


class Fleet:
    def __init__(self, clock: Callable[[], int], limits: Limits, pools: Collection[str]) -> None:
        self.now = clock
        self.limits = limits
        self.lease_clock = LeaseClock(limits.lease_ms)
        self.pools = set(pools)
        self.tasks: dict[str, Task] = {}
        self.traces: dict[str, Trace] = {}
        self.purses: defaultdict[str, Purse] = defaultdict(Purse)  # of tenants
        self.sessions: defaultdict[str, Session] = defaultdict(Session)
        self.lines: defaultdict[str, Line] = defaultdict(Line)
        self.allotments: dict[str, Allotment] = {}
        self.once: dict[tuple[str, str], tuple[int, Handle, str]] = {}  # until when, whose, and the work
        self.dead: dict[str, DeadLetter] = {}
        self.cards: dict[str, tuple[int, WorkerCard]] = {}
        self.counters: Counter[str] = Counter()
        self.running_of_tenant: Counter[str] = Counter()
        self.running_children: Counter[str] = Counter()  # by trace
        self.ended = 0
        self.happened: list[Happening] = []  # for those outside
        self.pulse = asyncio.Event()  # set, and replaced, at every change that somebody may wait for
        self._bells: defaultdict[str, threading.Event] = defaultdict(threading.Event)
        self._numbers = 0  # of entries, over all traces

    # -- looking up

    def lease_ends_at_ms(self) -> int:
        """When a lease ends that is given, or renewed, now; by the lease clock."""
        return self.lease_clock.look(self.now()) + self.limits.lease_ms

    def purses_of(self, task: Task) -> tuple[Purse, Purse]:
        """Whose money it spends: its trace's and its tenant's."""
        return self.traces[task.trace_id], self.purses[task.request.tenant]

    def ledger_of(self, task: Task) -> Ledger:
        trace, tenant = self.purses_of(task)
        return replace(trace.ledger(), tenant=None if tenant.cap_microusd is None else tenant.ledger())

    def task(self, task_id: str) -> Task:
        if task_id not in self.tasks:
            raise no_task(task_id)
        return self.tasks[task_id]

    def held(self, lease: Lease) -> Task:
        """The task of a lease that is held; `Fenced`, and counted, when it no longer is."""
        task = self.tasks.get(lease.task_id)
        if task is None or task.state is not State.RUNNING or task.lease != lease:
            self.counters["fenced_writes"] += 1
            raise Fenced(f"the lease on {lease.task_id} (attempt {lease.attempt}) is no longer {lease.worker}'s")
        return task

    def bell_of(self, worker: str) -> threading.Event:
        return self._bells[worker]

    def wake(self, task: Task) -> None:
        """Let the worker of a running task look at its leases."""
        if task.lease:
            self._bells[task.lease.worker].set()

    # -- moving

    def move(self, task: Task, state: State, *, reason: str = "") -> None:
        """To a state that does not end the task."""
        self.enter(task, state)
        self.tell(task, reason=reason)

    def requeue(self, task: Task, reason: str) -> None:
        """Back into line, at the head of its flow: it has waited before."""
        task.lease = None
        self.move(task, State.PENDING, reason=reason)
        self.lines[task.pool].put(task.flow, task.id, head=True)

    def enter(self, task: Task, state: State) -> None:
        """What an attempt holds of others' goes back when it ends: its place under the caps, the money set aside."""
        check_move(task.state, state)
        if state is State.RUNNING:
            self._count_running(task, 1)
        if task.state is State.RUNNING:
            self._count_running(task, -1)
            self._release(task)
            for purse in self.purses_of(task):
                purse.reserved_microusd -= task.reserved_microusd
            task.reserved_microusd = 0
        task.state = state
        task.due_at_ms = None
        task.waits_for = set()

    def _count_running(self, task: Task, change: int) -> None:
        if task.pool != DRIVERS:
            self.running_of_tenant[task.request.tenant] += change
        if task.request.parent_task_id:
            self.running_children[task.trace_id] += change

    def _release(self, task: Task) -> None:
        """There is room again under the caps of a task that leaves."""
        for pool, line in self.lines.items():
            line.release_tenant(task.request.tenant)
            if task.request.parent_task_id and line.release_trace(task.trace_id):
                self.sweep(pool)

    def sweep(self, pool: str) -> None:
        if not any(task.in_line for task in self.tasks.values() if task.pool == pool):
            self.lines[pool].sweep()

    # -- telling

    def tell_others(self, kind: Kind, task: Task, *, asks: tuple[str, ...] = (), code: str = "", why: str = "") -> None:
        self.happened.append(Happening(kind, task.id, self.now(), asks, code, why))

    def tell(self, task: Task, *, reason: str = "") -> None:
        """The queue's own word on the task's state; it stands outside the worker's count."""
        worker = task.lease.worker if task.lease else ""
        event = StateChanged(state=task.told_state, reason=reason, worker=worker)
        self.append(
            task,
            TaskProgress(
                trace_id=task.trace_id,
                task_id=task.id,
                attempt=task.attempt,
                seq=-1,
                at_ms=self.now(),
                status=task.told_state,
                events=(event,),
            ),
        )

    def append(self, task: Task, message: TaskProgress | TaskResult) -> None:
        self._numbers += 1
        trace = self.traces[task.trace_id]
        trace.entries.append((self._numbers, message))
        if len(trace.entries) > self.limits.max_entries:
            trace.dropped, _ = trace.entries.popleft()
        self.changed()

    def changed(self) -> None:
        self.pulse.set()
        self.pulse = asyncio.Event()
