"""What a fleet in memory holds: tasks, traces, pools."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from envelope.lifecycle import State
from envelope.messages import TaskProgress, TaskRequest, TaskResult

from ..base import Lease, TaskRecord
from ..limits import STRIDE, TICK

Flow = tuple[str, str, str]  # priority, tenant, trace
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
    lease: Lease | None = None
    lease_ends_at_ms: int = 0
    started_at_ms: int | None = None
    finished_at_ms: int | None = None
    ended_as: int = 0  # how many had ended before
    ended_by: Lease | None = None
    cancel_reason: str | None = None
    checkpoint: str | None = None
    spent_microusd: int = 0
    result: bytes = b""
    children: list[str] = field(default_factory=list[str])

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
    def flow(self) -> Flow:
        return (self.request.priority, self.request.tenant, self.request.trace_id)

    def record(self) -> TaskRecord:
        return TaskRecord(
            task_id=self.id,
            trace_id=self.trace_id,
            pool=self.pool,
            agent=self.request.agent,
            state=self.state,
            attempt=self.attempt,
            accepted_at_ms=self.accepted_at_ms,
            expires_at_ms=self.expires_at_ms,
            parent_task_id=self.request.parent_task_id,
            started_at_ms=self.started_at_ms,
            finished_at_ms=self.finished_at_ms,
            worker=self.lease.worker if self.lease else "",
            lost_leases=self.lost_leases,
            intent=self.request.intent,
            batch_id=self.request.batch_id,
        )


@dataclass(slots=True)
class Trace:
    root: str
    cap_microusd: int | None
    spent_microusd: int = 0
    tasks: list[str] = field(default_factory=list[str])
    entries: deque[Numbered] = field(default_factory=deque[Numbered])


@dataclass(slots=True)
class Pool:
    """Flows by virtual time; an emptied flow stays until its turn comes, so that it gains nothing by leaving."""

    virtual_time: int = 0
    flows: dict[Flow, deque[str]] = field(default_factory=dict[Flow, deque[str]])
    due: dict[Flow, int] = field(default_factory=dict[Flow, int])

    def put(self, flow: Flow, task_id: str, *, head: bool = False) -> None:
        if flow not in self.due:
            self.virtual_time += TICK  # flows of a single task start in the order in which they came
            self.due[flow] = self.virtual_time
        line = self.flows.setdefault(flow, deque())
        (line.appendleft if head else line.append)(task_id)

    def take(self) -> str | None:
        while self.due:
            flow = min(self.due, key=lambda flow: (self.due[flow], flow))
            self.virtual_time = max(self.virtual_time, self.due[flow])
            if line := self.flows[flow]:
                self.due[flow] += STRIDE[flow[0]]
                return line.popleft()
            del self.due[flow], self.flows[flow]
        return None
