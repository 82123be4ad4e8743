"""A look at what is under way in the fleet: who waits, what for, and what batches are at. Bounded, whatever there is.

As `muster ask list` and `muster top` it looks at the latest root tasks, so that what is older is not seen.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from envelope.events import AskOpened
from envelope.lifecycle import TERMINAL, State
from envelope.messages import TaskProgress
from transport.base import TaskRecord, Transport
from transport.errors import NotFound

from ..asks import is_ask
from ..budgets import waits_for_money

MAX_ROOTS = 1000
MAX_TRACES = 200  # of those under way, that are looked into
MAX_TASKS = 1000
# At once: what people do beside it must not wait.
AT_ONCE = 10


@dataclass(frozen=True, slots=True)
class Question:
    kind: str
    asked_at_ms: int


@dataclass(frozen=True, slots=True)
class Survey:
    parked: Mapping[tuple[str, str], int]  # by pool and reason
    shards: Mapping[State, int]
    questions: Sequence[Question] = ()
    tenants: frozenset[str] = field(default_factory=frozenset[str])


async def survey(transport: Transport) -> Survey:
    roots = (await transport.roots(limit=MAX_ROOTS)).records
    begun = [root.trace_id for root in roots if root.state not in TERMINAL and root.state is not State.PENDING]
    turn = asyncio.Semaphore(AT_ONCE)

    async def look(trace_id: str) -> tuple[list[TaskRecord], list[Question]]:
        async with turn:
            return await _look(transport, trace_id)

    looks = await asyncio.gather(*(look(trace_id) for trace_id in begun[:MAX_TRACES]))
    waiting = [task for tasks, _ in looks for task in tasks]
    return Survey(
        parked=Counter((task.pool, _reason(task)) for task in waiting),
        shards=Counter(root.state for root in _shards(roots)),
        questions=[question for _, questions in looks for question in questions],
        tenants=frozenset(root.tenant for root in roots),
    )


def _shards(roots: Iterable[TaskRecord]) -> Iterator[TaskRecord]:
    roots = list(roots)
    under_way = {root.task_id for root in roots if root.state not in TERMINAL}
    return (root for root in roots if root.batch_id in under_way)


def _reason(task: TaskRecord) -> str:
    if waits_for_money(task):
        return "money"
    return "ask" if any(map(is_ask, task.waits_for)) else "children"


async def _look(transport: Transport, trace_id: str) -> tuple[list[TaskRecord], list[Question]]:
    tasks = await transport.tasks(trace_id=trace_id, limit=MAX_TASKS)
    waiting = [task for task in tasks if task.state is State.WAITING]
    open_ids = {name for task in waiting for name in task.waits_for if is_ask(name)}
    return waiting, await _questions(transport, trace_id, open_ids) if open_ids else []


async def _questions(transport: Transport, trace_id: str, open_ids: set[str]) -> list[Question]:
    """Each attempt that still waits tells of its ask again: the first time counts."""
    found: dict[str, Question] = {}
    try:
        async for entry in transport.follow(trace_id, wait=False):
            if isinstance(told := entry.message, TaskProgress):
                asks = (event for event in told.events if isinstance(event, AskOpened) and event.ask_id in open_ids)
                for ask in asks:
                    kind = "question" if ask.questions else ask.permission
                    found.setdefault(ask.ask_id, Question(kind, told.at_ms))
    except NotFound:  # a failover has forgotten the trace
        return []
    return list(found.values())
