"""A look at what is under way in the fleet: who waits for people, and what batches are at.

It reads what waits and what lives, however many ended tasks there are beside it.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from envelope.lifecycle import TERMINAL, State
from transport.base import TaskRecord, Transport
from transport.metrics.table import OTHER

from ..ask_texts import AskTexts
from ..asks import OpenAsk, asks_of, is_ask
from ..budgets import waits_for_money
from ..pages import records_of

# Traces whose asks are read, those that wait longest: what the others ask is told as `other`.
MAX_TRACES = 200
# The latest roots, among which shards that have ended are looked for.
MAX_ROOTS = 1000
# At once: what people do beside it must not wait.
AT_ONCE = 10


@dataclass(frozen=True, slots=True)
class Question:
    """`asked_at_ms`: 0 where the trace's stream no longer tells."""

    kind: str
    asked_at_ms: int


@dataclass(frozen=True, slots=True)
class Survey:
    """`parked`: tasks that wait for people, by pool and reason. `shards`: of batches that have not ended."""

    parked: Mapping[tuple[str, str], int]
    shards: Mapping[State, int]
    questions: Sequence[Question] = ()
    tenants: frozenset[str] = field(default_factory=frozenset[str])


async def survey(transport: Transport, texts: AskTexts | None = None) -> Survey:
    """`texts`: of who looks again and again."""
    texts = texts or AskTexts(transport)
    waiting = [task async for task in records_of(transport.asking)]
    roots = (await transport.roots(limit=MAX_ROOTS)).records
    live = transport.live_roots
    begun = [root async for root in records_of(live, shards=False, at_once=MAX_ROOTS)]
    shards = [root async for root in records_of(live, shards=True, at_once=MAX_ROOTS)]
    return Survey(
        parked=Counter((task.pool, _reason(task)) for task in waiting),
        shards=Counter(shard.state for shard in _under_way([*shards, *_ended(roots)], begun)),
        questions=await _questions(waiting, texts),
        tenants=frozenset(task.tenant for task in (*roots, *begun, *shards, *waiting)),
    )


def _ended(roots: Iterable[TaskRecord]) -> Iterable[TaskRecord]:
    return (root for root in roots if root.state in TERMINAL)


def _under_way(shards: Iterable[TaskRecord], begun: Iterable[TaskRecord]) -> Iterable[TaskRecord]:
    batches = {root.task_id for root in begun}
    return (shard for shard in shards if shard.batch_id in batches)


async def _questions(waiting: Sequence[TaskRecord], texts: AskTexts) -> list[Question]:
    asking = [task for task in waiting if any(map(is_ask, task.waits_for))]
    traces = list(dict.fromkeys(task.trace_id for task in asking))
    read = frozenset(traces[:MAX_TRACES])
    turn = asyncio.Semaphore(AT_ONCE)

    async def look(trace_id: str) -> list[OpenAsk]:
        async with turn:
            return await asks_of([task for task in asking if task.trace_id == trace_id], texts)

    looks = await asyncio.gather(*map(look, traces[:MAX_TRACES]))
    others = [name for task in asking if task.trace_id not in read for name in task.waits_for if is_ask(name)]
    return [*(_question(one) for asks in looks for one in asks), *(Question(OTHER, 0) for _ in others)]


def _reason(task: TaskRecord) -> str:
    return "money" if waits_for_money(task) else "ask"


def _question(one: OpenAsk) -> Question:
    return Question("question" if one.ask.questions else one.ask.permission or OTHER, one.since_ms)
