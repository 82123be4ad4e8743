"""The seam between those who want work done, those who do it, and the store that loses neither.

Every method that changes something is one atomic step. Every write of a worker carries its lease, whose `attempt` is
the fencing token: a write under a lease that was lost raises `Fenced` and changes nothing. All times are the store's.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from envelope.agents import WorkerCard
from envelope.lifecycle import State
from envelope.messages import TaskProgress, TaskRequest, TaskResult
from envelope.signature import Keyring

from .limits import Limits


@dataclass(frozen=True, slots=True)
class Handle:
    """A submitted task. `existing`: its idempotency key was seen before, this is that first task."""

    task_id: str
    trace_id: str
    existing: bool = False


@dataclass(frozen=True, slots=True)
class Lease:
    """A worker's claim on one attempt of one task."""

    task_id: str
    trace_id: str
    pool: str
    worker: str
    attempt: int


@dataclass(frozen=True, slots=True)
class Claim:
    """A task handed to a worker: the bytes as they were submitted, and what the queue knows about them."""

    lease: Lease
    envelope: bytes
    accepted_at_ms: int
    started_at_ms: int
    expires_at_ms: int
    lost_leases: int = 0
    checkpoint: str | None = None  # blob of the last one, when an earlier attempt left any


@dataclass(frozen=True, slots=True)
class Renewal:
    """What a keeper learns when it renews: which leases are gone, which tasks must stop and why."""

    lost: frozenset[str] = frozenset()
    cancelled: dict[str, str] = field(default_factory=dict[str, str])  # task id → reason
    expired: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Entry:
    """One message of a trace's stream. `id` sorts, and is what a reader resumes after."""

    id: str
    message: TaskProgress | TaskResult


@dataclass(frozen=True, slots=True)
class TaskRecord:
    task_id: str
    trace_id: str
    pool: str
    agent: str
    state: State
    attempt: int
    accepted_at_ms: int
    expires_at_ms: int
    parent_task_id: str | None = None
    started_at_ms: int | None = None
    finished_at_ms: int | None = None
    worker: str = ""
    lost_leases: int = 0
    intent: str = ""
    batch_id: str = ""


@dataclass(frozen=True, slots=True)
class PoolStats:
    pool: str
    ready: int
    running: int
    oldest_ready_age_s: float


@dataclass(frozen=True, slots=True)
class Ledger:
    """A trace's money: `cap_microusd` is its root's `max_cost_microusd`; None means no cap."""

    spent_microusd: int
    cap_microusd: int | None

    @property
    def exhausted(self) -> bool:
        return self.cap_microusd is not None and self.spent_microusd >= self.cap_microusd


class LeaseKeeper(Protocol):
    """Renews from a thread of its own, over a connection of its own, so that a busy event loop loses no lease."""

    def renew(self, leases: Sequence[Lease]) -> Renewal: ...
    def wait(self, worker: str, timeout_s: float) -> None:
        """Block until one of the worker's tasks is cancelled, until `interrupt`, or for the time given."""
        ...

    def interrupt(self) -> None:
        """End a `wait`, from another thread."""
        ...

    def close(self) -> None: ...


class Blobs(Protocol):
    async def put(self, content: bytes) -> str:
        """Store under the content's own name (`sha256:…`); storing the same twice is one blob."""
        ...

    async def get(self, ref: str) -> bytes:
        """The content; `NotFound` when it is gone. Checked against its name."""
        ...


class Transport(Protocol):
    blobs: Blobs
    keyring: Keyring  # signs what is submitted; whoever claims verifies with it
    limits: Limits

    # -- for those who want work done

    async def submit(self, requests: Sequence[TaskRequest]) -> list[Handle]:
        """Accept all or none. The same idempotency key within its window (per tenant) gives the first handle back.

        A child must name a parent that has not ended (`Refused`), and expires no later than it; a scope wider than
        the parent's is refused with the grant named. When this returns, every task will have exactly one result.
        """
        ...

    async def cancel(self, task_id: str, *, by: str, reason: str) -> int:
        """Stop a task and all its descendants; how many were still alive.

        Queued ones end at once, running ones are told through their lease keeper."""
        ...

    def follow(self, trace_id: str, *, after: str = "0") -> AsyncIterator[Entry]:
        """The trace's stream from any id on; ends after the result of the trace's root task."""
        ...

    def results(self, task_ids: Iterable[str]) -> AsyncIterator[TaskResult]:
        """The result of each task, in the order in which they end; those that ended before come first."""
        ...

    async def request(self, task_id: str) -> TaskRequest: ...
    async def result(self, task_id: str) -> TaskResult | None: ...
    async def record(self, task_id: str) -> TaskRecord: ...
    async def tasks(self, *, trace_id: str | None = None, limit: int = 100) -> list[TaskRecord]:
        """A trace's tasks in the order of their submission; without a trace the latest roots first."""
        ...

    # -- for those who do it

    async def claim(self, pool: str, worker: str, *, slots: int, wait_s: float) -> list[Claim]:
        """Up to `slots` tasks, fairly chosen, all started; waits on the doorbell, at most `wait_s`, for the first.

        Reaps what is over in this pool, and wakes for it. Safe to cancel: what was started meanwhile is given back.
        Each start appends a `TaskProgress` with `StateChanged(running)` to the trace; the queue's own progress has
        `seq` -1, the worker's count starts at 0.
        """
        ...

    def keeper(self) -> LeaseKeeper: ...

    async def emit(self, lease: Lease, progress: TaskProgress, *, charge_microusd: int = 0) -> Ledger:
        """Append to the trace's stream and charge its budget, in one step; concurrent calls share a round trip."""
        ...

    async def checkpoint(self, lease: Lease, blob: str) -> None: ...

    async def finish(self, lease: Lease, result: TaskResult) -> None:
        """The one terminal event: state, result, stream, budget, parent and slot in one step.

        Safe to repeat: finishing again under the same lease with the task ended by it is not an error.
        """
        ...

    async def give_back(self, lease: Lease) -> None:
        """Return a task to the head of its queue (drain); counts neither a lost lease nor a retry."""
        ...

    # -- for whoever is alive

    async def reap(self) -> int:
        """End or requeue what its worker or its time has left behind; how many tasks were touched."""
        ...

    async def announce(self, card: WorkerCard, *, ttl_s: float) -> None:
        """Publish a worker and its catalogue of agents; it is forgotten after `ttl_s` without another."""
        ...

    async def workers(self) -> list[WorkerCard]: ...
    async def stats(self, pools: Sequence[str]) -> list[PoolStats]: ...
    async def counters(self) -> dict[str, int]:
        """Since the fleet began: `fenced_writes` refused, `lost_leases`, tasks declared `poisoned`; absent: none."""
        ...

    async def now_ms(self) -> int: ...
    async def close(self) -> None: ...
