"""Records of a fleet in memory: tasks, sessions, traces."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from envelope.lifecycle import TERMINAL, State
from envelope.messages import TaskProgress, TaskRequest, TaskResult

from ..admission import flow_of
from ..approvals import Answer
from ..base import Lease, Prompt, TaskRecord
from ..money import Ledger
from .line import Flow

LIVE = frozenset(State) - TERMINAL
Numbered = tuple[int, TaskProgress | TaskResult]


@dataclass(slots=True)
class Task:
    request: TaskRequest
    envelope: bytes
    accepted_at_ms: int
    expires_at_ms: int
    state: State = State.PENDING
    attempt: int = 0
    lost_leases: int = 0
    forgiven: int | None = None  # leases that it had lost when it last got on
    retries: int = 0
    lease: Lease | None = None
    lease_ends_at_ms: int = 0  # by the lease clock
    started_at_ms: int | None = None  # for the first time
    finished_at_ms: int | None = None
    ended_as: int = 0  # how many had ended before
    ended_by: Lease | None = None
    cancel_reason: str | None = None
    cancelled_by: str = ""
    cancel_ends_at_ms: int | None = None
    look_at_ms: int = 0  # when its deadline is looked at next
    due_at_ms: int | None = None  # when it comes back into line: a retry, or a wait that takes no longer
    waits_for: set[str] = field(default_factory=set[str])
    asks_since_ms: int = 0  # since when it waits for asks, while it does
    wakes_at_first: bool = False  # or at a word to its session; of a task that waits
    background: list[str] = field(default_factory=list[str])  # children that no wait for all counts
    prompted: bool = False  # since it was last sent on for a prompt
    answers: dict[str, Answer] = field(default_factory=dict[str, Answer])
    checkpoint: str | None = None
    spent_microusd: int = 0
    reserved_microusd: int = 0
    result: bytes = b""
    children: list[str] = field(default_factory=list[str])
    depth: int = 0  # how many tasks stand above it

    @property
    def id(self) -> str:
        return self.request.task_id

    @property
    def trace_id(self) -> str:
        return self.request.trace_id

    @property
    def pool(self) -> str:
        return self.request.recipient

    @property
    def session_id(self) -> str:
        """A session is named after the task that opened it."""
        return self.request.resume_token or self.request.task_id

    @property
    def flow(self) -> Flow:
        return (self.request.tenant, self.request.priority, flow_of(self.request))

    @property
    def live(self) -> bool:
        return self.state in LIVE

    @property
    def in_line(self) -> bool:
        return self.state is State.PENDING and self.due_at_ms is None

    @property
    def told_state(self) -> State:
        """One that waits with its slot runs, as far as leases go, and waits for everybody else."""
        return State.WAITING if self.state is State.RUNNING and self.waits_for else self.state

    @property
    def asks(self) -> set[str]:
        """Those among what it waits for."""
        return self.waits_for - set(self.children)

    def record(self) -> TaskRecord:
        return TaskRecord(
            task_id=self.id,
            trace_id=self.trace_id,
            pool=self.pool,
            agent=self.request.agent,
            state=self.told_state,
            attempt=self.attempt,
            accepted_at_ms=self.accepted_at_ms,
            expires_at_ms=self.expires_at_ms,
            parent_task_id=self.request.parent_task_id,
            started_at_ms=self.started_at_ms,
            finished_at_ms=self.finished_at_ms,
            worker=self.lease.worker if self.lease else "",
            lost_leases=self.lost_leases,
            retries=self.retries,
            intent=self.request.intent,
            batch_id=self.request.batch_id,
            session_id=self.request.resume_token,
            checkpoint=self.checkpoint,
            cancelled_by=self.cancelled_by,
            cancel_reason=self.cancel_reason or "",
            tenant=self.request.tenant,
            waits_for=tuple(sorted(self.waits_for)),
            background=tuple(self.background),
            spent_microusd=self.spent_microusd,
            reserved_microusd=self.reserved_microusd,
        )


@dataclass(slots=True)
class Session:
    """`holder`: the live task that runs it, `last`: this or the one before it. It can be continued as soon as it has a
    checkpoint."""

    tenant: str = ""
    holder: str | None = None
    last: str = ""
    checkpoint: str | None = None
    archived: bool = False
    inbox: list[Prompt] = field(default_factory=list[Prompt])


@dataclass(slots=True)
class Purse:
    """A tenant's money."""

    cap_microusd: int | None = None
    spent_microusd: int = 0
    reserved_microusd: int = 0

    def ledger(self) -> Ledger:
        return Ledger(self.spent_microusd, self.cap_microusd, self.reserved_microusd)

    def allows(self, amount_microusd: int) -> bool:
        taken = self.spent_microusd + self.reserved_microusd
        return self.cap_microusd is None or taken + amount_microusd <= self.cap_microusd


@dataclass(slots=True)
class Trace(Purse):
    root: str = ""
    tasks: list[str] = field(default_factory=list[str])
    entries: deque[Numbered] = field(default_factory=deque[Numbered])
    dropped: int = 0  # the number of the last entry that is no longer kept
