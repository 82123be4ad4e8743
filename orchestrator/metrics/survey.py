"""A look at what is under way in the fleet: who waits, what for, and what batches are at. Bounded, whatever there is.

As `muster ask list` and `muster top` it looks at the latest root tasks, so that what is older is not seen.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from envelope.lifecycle import TERMINAL, State
from transport.base import TaskRecord, Transport
from transport.metrics.table import OTHER

from ..ask_texts import AskTexts
from ..asks import OpenAsk, asks_of, is_ask
from ..budgets import waits_for_money

MAX_ROOTS = 1000
MAX_TRACES = 200  # of those under way, that are looked into
MAX_TASKS = 1000
# At once: what people do beside it must not wait.
AT_ONCE = 10


@dataclass(frozen=True, slots=True)
class Question:
    """`asked_at_ms`: 0 where the trace's stream no longer tells."""

    kind: str
    asked_at_ms: int


@dataclass(frozen=True, slots=True)
class Survey:
    parked: Mapping[tuple[str, str], int]  # by pool and reason
    shards: Mapping[State, int]
    questions: Sequence[Question] = ()
    tenants: frozenset[str] = field(default_factory=frozenset[str])


async def survey(transport: Transport, texts: AskTexts | None = None) -> Survey:
    """Inside traces that are under way alone: what waits in line has nothing yet that could wait for somebody.

    `texts`: of who looks again and again.
    """
    texts = texts or AskTexts(transport)
    roots = (await transport.roots(limit=MAX_ROOTS)).records
    begun = [root.trace_id for root in roots if root.state not in TERMINAL and root.state is not State.PENDING]
    turn = asyncio.Semaphore(AT_ONCE)

    async def look(trace_id: str) -> tuple[list[TaskRecord], list[OpenAsk]]:
        async with turn:
            tasks = await transport.tasks(trace_id=trace_id, limit=MAX_TASKS)
            waiting = [task for task in tasks if task.state is State.WAITING]
            return waiting, await asks_of(waiting, texts)

    looks = await asyncio.gather(*(look(trace_id) for trace_id in begun[:MAX_TRACES]))
    waiting = [task for tasks, _ in looks for task in tasks]
    return Survey(
        parked=Counter((task.pool, _reason(task)) for task in waiting),
        shards=Counter(root.state for root in _shards(roots)),
        questions=[_question(one) for _, asks in looks for one in asks],
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


def _question(one: OpenAsk) -> Question:
    return Question("question" if one.ask.questions else one.ask.permission or OTHER, one.since_ms)
