"""Tasks that start: the next of the flow that is furthest behind, below the caps."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from envelope.agents import DRIVERS
from envelope.lifecycle import State

from ..base import Allotment, Claim, Lease, PoolStats
from .fleet import Fleet
from .tasks import Task


def start_next(fleet: Fleet, pool: str, worker: str, slots: int, but_of: Collection[str]) -> list[Claim]:
    claims: list[Claim] = []
    while len(claims) < slots and (task_id := fleet.lines[pool].take(_Caps(fleet, pool), but_of)):
        claims.append(_start(fleet, fleet.tasks[task_id], worker))
    return claims


def stats(fleet: Fleet, pool: str) -> PoolStats:
    tasks = [task for task in fleet.tasks.values() if task.pool == pool]
    ready = [task for task in tasks if task.in_line]
    now = fleet.now()
    oldest = min((task.accepted_at_ms for task in ready), default=now)
    running = sum(task.state is State.RUNNING for task in tasks)
    parked = sum(task.state is State.WAITING and not task.asks for task in tasks)
    return PoolStats(pool, len(ready), running, (now - oldest) / 1000, parked)


@dataclass(frozen=True, slots=True)
class _Caps:
    """The rules of a fleet's lines: allotments, and the children that a trace may have at work."""

    fleet: Fleet
    pool: str

    def weight(self, tenant: str) -> float:
        return self.fleet.allotments.get(tenant, Allotment()).weight

    def is_full(self, tenant: str) -> bool:
        most = self.fleet.allotments.get(tenant, Allotment()).max_running
        return most is not None and (0 if self.pool == DRIVERS else self.fleet.running_of_tenant[tenant]) >= most

    def is_ready(self, task_id: str) -> bool:
        return self.fleet.tasks[task_id].state is State.PENDING

    def is_crowded(self, task_id: str) -> bool:
        task = self.fleet.tasks[task_id]
        if task.request.parent_task_id is None:
            return False
        return self.fleet.running_children[task.trace_id] >= self.fleet.limits.children_per_trace


def _start(fleet: Fleet, task: Task, worker: str) -> Claim:
    now = fleet.now()
    task.attempt += 1
    task.started_at_ms = now if task.started_at_ms is None else task.started_at_ms
    task.lease = Lease(task.id, task.trace_id, task.pool, worker, task.attempt)
    task.lease_ends_at_ms = fleet.lease_ends_at_ms()
    fleet.move(task, State.RUNNING)
    continues = task.request.resume_token and task.checkpoint is None
    return Claim(
        lease=task.lease,
        envelope=task.envelope,
        accepted_at_ms=task.accepted_at_ms,
        started_at_ms=now,
        expires_at_ms=task.expires_at_ms,
        lost_leases=task.lost_leases,
        retries=task.retries,
        first_started_at_ms=task.started_at_ms,
        checkpoint=task.checkpoint,
        session=fleet.sessions[task.session_id].checkpoint if continues else None,
    )
