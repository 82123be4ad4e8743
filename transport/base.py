"""The seam between those who want work done, those who do it, and the store that loses neither.

Every method that changes something is one atomic step. Every write of a worker carries its lease, whose `attempt` is
the fencing token: a write under a lease that was lost raises `Fenced` and changes nothing. All times are the store's.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from envelope.agents import WorkerCard
from envelope.lifecycle import State
from envelope.messages import TaskProgress, TaskRequest, TaskResult
from envelope.signature import Keyring

from .approvals import Answer, Approvals
from .audit import AuditLog
from .blobs.base import Blobs
from .limits import Limits
from .money import Ledger
from .notices import Notices
from .rates import Rates
from .registry import Registry
from .uploads import Uploads

OPERATOR = "operator"  # who acts where nobody says more


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
    retries: int = 0
    first_started_at_ms: int = 0
    checkpoint: str | None = None  # blob of the last one, when an earlier attempt left any
    session: str | None = None  # blob of the session that the task continues; None: it opens its own


@dataclass(frozen=True, slots=True)
class Wait:
    """What a parked task waits for: the end of all these children and an answer to all these asks.

    `until_ms`: it goes on at this moment at the latest, whatever is still missing (an ask's default answer).
    `first`: it goes on as soon as one of them is there, or a word to its session.
    """

    children: frozenset[str] = frozenset()
    asks: frozenset[str] = frozenset()
    until_ms: int | None = None
    first: bool = False


@dataclass(frozen=True, slots=True)
class Prompt:
    """A word to a session that is under way."""

    text: str
    by: str
    at_ms: int


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A task that ended because nobody could do it. `why` is one sentence for an operator."""

    task_id: str
    trace_id: str
    pool: str
    code: str  # of the result's error: `poison`, or `bad_input` for bytes that are no request of this fleet
    why: str
    worker: str  # the last one that had it
    tenant: str
    at_ms: int


@dataclass(frozen=True, slots=True)
class Allotment:
    """What a tenant gets beside others: `weight` of the starts, `max_running` tasks at once (but for drivers)."""

    weight: float = 1.0
    max_running: int | None = None
    max_queued: int | None = None  # tasks in line, in each cell; None: as `Limits` says
    max_tree: int | None = None  # tasks of one trace, with those that have ended; None: as `Limits` says


@dataclass(frozen=True, slots=True)
class Renewal:
    """What a keeper learns when it renews: which leases are gone, which tasks must stop and why."""

    lost: frozenset[str] = frozenset()
    cancelled: dict[str, str] = field(default_factory=dict[str, str])  # task id → reason
    expired: frozenset[str] = frozenset()
    due_ms: int | None = None  # until the next deadline, timer or end of a lease: somebody should look then


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
    worker: str = ""  # that holds it, also while it waits with its slot
    lost_leases: int = 0
    retries: int = 0
    intent: str = ""
    batch_id: str = ""
    session_id: str = ""  # the session that it goes on with; empty: its own
    checkpoint: str | None = None
    cancelled_by: str = ""
    cancel_reason: str = ""  # of a task that was told to stop; one in line ended at once, its result says why
    tenant: str = ""
    waits_for: tuple[str, ...] = ()  # while it waits: ids of children and asks that are still missing
    background: tuple[str, ...] = ()  # children that people have sent there (see `Transport.background`)
    spent_microusd: int = 0  # of its trace's money, over all its attempts
    reserved_microusd: int = 0  # what its running attempt has set aside


@dataclass(frozen=True, slots=True)
class Page:
    """Some of a listing. `cursor`: what to go on after; empty at its end. `total`: how many the whole listing has; None
    where nobody counts them."""

    records: tuple[TaskRecord, ...]
    cursor: str
    total: int | None = None


@dataclass(frozen=True, slots=True)
class PoolStats:
    """`oldest_ready_age_s` looks at the heads of the next flows: about right, and cheap however long the queue is.

    `parked`: tasks that gave their slot back and wait for the end of children alone.
    """

    pool: str
    ready: int
    running: int
    oldest_ready_age_s: float
    parked: int = 0


@dataclass(frozen=True, slots=True)
class Saved:
    """How things stand with a checkpoint: the trace's money, and the prompts that no checkpoint holds."""

    ledger: Ledger
    prompts: tuple[Prompt, ...] = ()


class LeaseKeeper(Protocol):
    """Renews from a thread of its own, over a connection of its own, so that a busy event loop loses no lease."""

    def renew(self, leases: Sequence[Lease]) -> Renewal:
        """Also ends or requeues what its worker or its time has left behind: who has no free slot claims nothing."""
        ...

    def wait(self, worker: str, timeout_s: float) -> None:
        """Block until one of the worker's tasks is cancelled, until `interrupt`, or for the time given."""
        ...

    def interrupt(self) -> None:
        """End a `wait`, from another thread."""
        ...

    def close(self) -> None: ...


class Transport(Protocol):
    blobs: Blobs
    fleet: str
    keyring: Keyring  # signs what is submitted; whoever claims verifies with it
    approvals: Approvals  # sign what workers may only verify
    limits: Limits
    rates: Rates  # of calls to models
    uploads: Uploads  # what callers from outside store
    notices: Sequence[Notices]  # to others outside of the fleet; of each cell
    audit: AuditLog  # who cancelled, answered, purged, allotted, raised a cap, and what that changed
    registry: Registry  # of orchestrators alone

    # -- for those who want work done

    async def submit(self, requests: Sequence[TaskRequest], *, under: Lease | None = None) -> list[Handle]:
        """Accept all or none. The same work under the same idempotency key (per tenant, within its window) gives the
        first handle back, as does the same task id: submitting again is safe. A key with other work is `Refused`.

        A child must name a parent that has not ended (`Refused`), and expires no later than it; a scope wider than
        the parent's is refused with the grant named. A worker that submits children says `under` which lease; a stale
        one is `Fenced`. Refused, too: an unknown pool, a request that was made outside the replay window, a
        `resume_token` whose session is under way (`Busy`) or not known, a trace with too many tasks. `QueueFull` when
        the server is short of memory, or the tenant's line is full. More than 100 requests, or 2 MiB, go in parts: when
        a later one is refused, what was accepted before is cancelled.
        When this returns, every task will have exactly one result.
        """
        ...

    async def cancel(self, task_id: str, *, by: str, reason: str) -> int:
        """Stop a task and all its descendants; how many were alive and had not been told to stop before.

        Queued and waiting ones end at once, running ones are told through their lease keeper; a running one that has
        not ended `Limits.expiry_grace_ms` later is ended by the queue. A large tree takes a second for 10,000 tasks.
        """
        ...

    async def prompt(self, session_id: str, text: str, *, by: str) -> Handle:
        """Put a word into the inbox of a session that is under way; the handle is of the task that will answer.

        `NotFound` when no task runs the session: submit one with its `resume_token`. `QueueFull` for a full inbox.
        """
        ...

    async def background(self, task_id: str) -> bool:
        """Let a child's parent go on without it: no wait for all counts the child from now on, and a parent that parked
        for nothing else goes on. The parent's record names it; said again, it is the same.

        False, and nothing happens: it has ended, has no parent, or its parent waits, but not for this one to end.
        """
        ...

    async def session_task(self, session_id: str) -> str:
        """The task that runs a session or, once that has ended, the one that had it last.

        Of a session that is not kept any more it is the one that opened it, whose id the session has.
        """
        ...

    async def answer(self, task_id: str, ask_id: str, text: str, *, by: str, asked: str = "") -> Answer:
        """Answer an ask of a task that has not ended; the answer that stands, which may be an earlier, signed one.
        Signed where this process can, over `asked` too (`AskOpened.digest`)."""
        ...

    async def strike_answer(self, task_id: str, ask_id: str, answer: Answer) -> None:
        """Take an answer away that nobody gave, if just this one stands: the ask is open again."""
        ...

    async def answers(self, task_id: str) -> Mapping[str, Answer]:
        """All answers that a task got, by ask id. `NotFound` when there is no such task."""
        ...

    def follow(self, trace_id: str, *, after: str = "0", wait: bool = True, about: str = "") -> AsyncIterator[Entry]:
        """The trace's stream from any id on, to the result of its root task; without `wait` to the newest entry.

        `about` a task: its own entries alone, and those in which another tells of it as its child.

        Where entries after `after` are no longer kept, it begins with a snapshot: for each task a progress with
        `Resynced` and its state, and the result of those that ended; then it goes on with what is kept.
        """
        ...

    def results(self, task_ids: Iterable[str]) -> AsyncIterator[TaskResult]:
        """The result of each task, in the order in which they end; those that ended before come first.

        `NotFound` as soon as one is seen to be forgotten (see `outbox.py` for who submits it again).
        """
        ...

    async def request(self, task_id: str) -> TaskRequest: ...
    async def result(self, task_id: str) -> TaskResult | None: ...
    async def record(self, task_id: str) -> TaskRecord: ...
    async def tasks(self, *, trace_id: str | None = None, limit: int = 100) -> list[TaskRecord]:
        """A trace's tasks in the order of their submission; without a trace the latest roots first."""
        ...

    async def roots(self, *, tenant: str | None = None, after: str = "", limit: int = 100) -> Page:
        """Root tasks that are still kept, of a tenant or of all, the latest first: up to `limit` from a cursor on.

        Whatever is submitted, and ends, meanwhile: each is listed once. `Refused` for what is no cursor.
        """
        ...

    async def live_roots(
        self, *, tenant: str | None = None, shards: bool | None = None, after: str = "", limit: int = 100
    ) -> Page:
        """As `roots`, of those alone that have not ended, with their `total`.

        `shards`: those that belong to a batch (they have a `batch_id`), or (False) all others; None: both.
        """
        ...

    async def asking(
        self, *, tenant: str | None = None, trace_id: str | None = None, after: str = "", limit: int = 100
    ) -> Page:
        """Tasks that wait for answers of people (`Wait.asks`, `hold`), money included: who waits longest is first.

        Of a tenant, of a trace, or of all. A page may have fewer than `limit` and yet a cursor. Who reads to the end
        misses nobody that has waited all the time; one that begins anew meanwhile may be listed twice. `total`: of the
        tenant or of all; None for a trace. `Refused` for what is no cursor.
        """
        ...

    # -- for those who do it

    async def claim(
        self, pool: str, worker: str, *, slots: int, wait_s: float, but_of: Sequence[str] = ()
    ) -> list[Claim]:
        """Up to `slots` tasks, fairly chosen, all started; waits on the doorbell, at most `wait_s`, for the first. None
        of the tenants `but_of`: what they have in line stays there, and no worker is told of it.

        Reaps what is over in this pool, and wakes for it. Safe to cancel: what was started meanwhile is given back.
        Each start appends `StateChanged(running)` to the trace, with the `seq` -1 of all that the queue says.
        """
        ...

    def keeper(self) -> LeaseKeeper: ...

    async def emit(
        self,
        lease: Lease,
        progress: TaskProgress,
        *,
        charge_microusd: int = 0,
        release_microusd: int = 0,
        gets_on: bool = False,
    ) -> Ledger:
        """Append to the trace's stream and charge its budget, in one step; concurrent calls share a round trip.

        `release_microusd` of what was reserved is free again. `gets_on`: the task has come to something that no attempt
        before it had, nor one after it will have anew; leases lost until now speak no longer for poison. Waits for room
        on a full server, as `reserve` and `checkpoint` do: `QueueFull` after about 20 s.
        """
        ...

    async def reserve(self, lease: Lease, amount_microusd: int) -> Ledger | None:
        """Set money of the trace aside before it is spent; None when its cap, or its tenant's, does not allow it.

        What an attempt has reserved and not released is free again when the attempt ends, however it ends.
        """
        ...

    async def checkpoint(
        self,
        lease: Lease,
        blob: str,
        *,
        heard: int = 0,
        progress: TaskProgress | None = None,
        charge_microusd: int = 0,
        release_microusd: int = 0,
    ) -> Saved:
        """What the next attempt goes on from; `heard`: how many prompts of the inbox it holds, which leave it.

        `progress` is emitted in the same step, as by `emit`: nobody goes on from what was not charged.
        """
        ...

    async def inbox(self, lease: Lease) -> list[Prompt]:
        """Prompts that no checkpoint holds yet, oldest first."""
        ...

    async def park(self, lease: Lease, wait: Wait) -> bool:
        """Give the slot back until what is waited for is there; then the task is queued again, at the head of its flow.

        Checkpoint first. False, and nothing happened: nothing is left to wait for, or (`first`) some of it is there.
        """
        ...

    async def hold(self, lease: Lease, asks: frozenset[str]) -> None:
        """Wait, and keep lease and slot: for answers to these asks from now on, to no others. Records and streams say
        that the task waits as long as one is missing; its worker looks for them itself."""
        ...

    async def finish(
        self,
        lease: Lease,
        result: TaskResult,
        *,
        dead: str = "",
        progress: TaskProgress | None = None,
        charge_microusd: int = 0,
    ) -> bool:
        """The one terminal event: state, result, stream, budget, parent and slot in one step.

        `progress`, what was not told before, is emitted and charged in the same step, right before the end.
        Safe to repeat: finishing again under the same lease with the task ended by it is not an error.
        False: a prompt came in that no checkpoint holds. A completed task is then queued again instead, and goes on.
        `dead` lists the task as a dead letter, with this reason.
        """
        ...

    async def give_back(self, lease: Lease) -> None:
        """Return a task to the head of its queue (drain); counts neither a lost lease nor a retry."""
        ...

    async def retry(self, lease: Lease, *, delay_ms: int, reason: str) -> None:
        """Return a task to its queue after a pause, and count it: what went wrong is not the task's fault."""
        ...

    # -- for operators

    async def archive(self, session_id: str, *, archived: bool = True) -> None:
        """Mark a session, for those who list sessions; nothing else changes. `NotFound` for one that has no turn."""
        ...

    async def archived(self, session_ids: Sequence[str]) -> frozenset[str]:
        """Those of them that are marked."""
        ...

    async def dead_letters(self, *, tenant: str | None = None, limit: int = 100) -> list[DeadLetter]:
        """Of a tenant, or of all; the latest first, one per task."""
        ...

    async def dead_letter_count(self) -> int: ...

    async def purge(self, task_ids: Iterable[str], *, by: str = OPERATOR) -> int:
        """Take tasks off the list of dead letters; how many were on it. Their records stay until retention."""
        ...

    async def allot(self, tenant: str, allotment: Allotment, *, by: str = OPERATOR) -> None:
        """From now on. In a fleet of several cells a cap holds in each of them, for no script can look into two."""
        ...

    async def allotments(self) -> Mapping[str, Allotment]: ...

    async def ledger(self, trace_id: str) -> Ledger:
        """A trace's money now; its tasks' records say who has spent and reserved what. `NotFound`: no such trace."""
        ...

    async def raise_cap(self, trace_id: str, cap_microusd: int, *, by: str) -> Ledger:
        """Let a trace spend up to this; its money as it is then. A cap that is higher, or none at all, stays. Who waits
        for it (an ask by the name of `raising.ask_for_more`) goes on. `NotFound` for an unknown trace."""
        ...

    async def fund(self, tenant: str, cap_microusd: int | None, *, by: str, only_lower: bool = False) -> Ledger:
        """Let a tenant spend up to this in all its traces, from now on (None: as much as it likes); its money then.

        With a higher cap who waits for it (an ask by the name of `raising.ask_for_more_of_tenant`) goes on. What is
        spent is never forgotten. `only_lower`: a lower cap stays. Of several cells each gets an equal part of the cap.
        """
        ...

    async def funds(self, tenant: str) -> Ledger:
        """What a tenant has spent and set aside, and its cap; nothing, for one that is not known."""
        ...

    # -- for whoever is alive

    async def reap(self) -> int:
        """End or requeue what its worker or its time has left behind; how many tasks were touched."""
        ...

    async def announce(self, card: WorkerCard, *, ttl_s: float) -> None:
        """Publish a worker and its agents, signed, until `ttl_s` without another; its pool is known from now on."""
        ...

    async def workers(self) -> list[WorkerCard]: ...  # of a card that is not signed: the process, and no agents
    async def stats(self, pools: Sequence[str]) -> list[PoolStats]: ...
    async def counters(self) -> dict[str, int]:
        """Since the fleet began: `fenced_writes` refused, `lost_leases`, `retries`, tasks `poisoned`; absent: none."""
        ...

    async def overdue(self, late_ms: int) -> int:
        """How many tasks somebody should have ended so long ago, because their deadline was over."""
        ...

    async def memory_used(self) -> float: ...  # what share of its memory the fullest server has used; 0: no limit

    async def now_ms(self) -> int: ...
    async def close(self) -> None: ...
