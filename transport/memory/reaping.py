"""Reaping: leases and deadlines that end, pauses that are over."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

from envelope.errors import ErrorCode
from envelope.lifecycle import State

from .ends import bury, ends_instead, finish_by_queue
from .fleet import Fleet
from .pauses import come_due
from .tasks import Task

Timed = tuple[int, str]  # a moment, and the task that it is about


def reap(fleet: Fleet, pools: Collection[str]) -> int:
    """Bring everything up to now: leases in these pools, then deadlines, then pauses. How many tasks were touched."""
    now = fleet.now()
    return (
        _each(fleet, _leases(fleet, pools), _lose, fleet.lease_clock.look(now))
        + _each(fleet, _deadlines(fleet), _look_at_deadline, now)
        + _each(fleet, _pauses(fleet), come_due, now)
    )


def next_end_ms(fleet: Fleet, pool: str) -> int | None:
    """Milliseconds until `reap` has something to do for this pool, when that is known."""
    leases = [at + fleet.lease_clock.behind_ms for at, _ in _leases(fleet, (pool,))]
    moments = [*leases, *(at for at, _ in (*_deadlines(fleet), *_pauses(fleet)))]
    return max(0, min(moments) - fleet.now()) if moments else None


def overdue(fleet: Fleet, late_ms: int) -> int:
    return sum(at <= fleet.now() - late_ms for at, _ in _deadlines(fleet))


def _each(fleet: Fleet, timed: Iterator[Timed], do: Callable[[Fleet, Task], None], now_ms: int) -> int:
    over = sorted((at, task_id) for at, task_id in timed if at <= now_ms)
    for _, task_id in over:
        if fleet.tasks[task_id].live:  # one that ended with its parent just now has nothing left to lose
            do(fleet, fleet.tasks[task_id])
    return len(over)


def _leases(fleet: Fleet, pools: Collection[str]) -> Iterator[Timed]:
    for task in fleet.tasks.values():
        if task.state is State.RUNNING and task.pool in pools:
            yield task.lease_ends_at_ms, task.id


def _deadlines(fleet: Fleet) -> Iterator[Timed]:
    return ((task.look_at_ms, task.id) for task in fleet.tasks.values() if task.live)


def _pauses(fleet: Fleet) -> Iterator[Timed]:
    return ((task.due_at_ms, task.id) for task in fleet.tasks.values() if task.due_at_ms is not None)


def _look_at_deadline(fleet: Fleet, task: Task) -> None:
    task.look_at_ms = _ends_by(fleet, task)
    if fleet.now() >= task.look_at_ms:
        ends_instead(fleet, task)


def _ends_by(fleet: Fleet, task: Task) -> int:
    """A running task may end itself within the grace."""
    if task.state is not State.RUNNING:
        return task.expires_at_ms
    ends = task.expires_at_ms + fleet.limits.expiry_grace_ms
    return ends if task.cancel_ends_at_ms is None else min(ends, task.cancel_ends_at_ms)


def _lose(fleet: Fleet, task: Task) -> None:
    task.lost_leases += 1
    fleet.counters["lost_leases"] += 1
    if ends_instead(fleet, task):
        return
    in_vain = task.lost_leases - (task.forgiven or 0)
    if in_vain >= fleet.limits.poison_after * (1 if task.forgiven is None else fleet.limits.way_back):
        fleet.counters["poisoned"] += 1
        why = f"the task was given up after {in_vain} lost leases"
        bury(fleet, task, ErrorCode.POISON, why)
        finish_by_queue(fleet, task, ErrorCode.POISON, why)
    else:
        fleet.requeue(task, "its worker was lost")
