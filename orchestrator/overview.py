"""Overview of a fleet: its pools, who serves them, and every goal, batch and fan-out that is under way."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import Any

from envelope.agents import WorkerCard
from envelope.lifecycle import State
from transport.base import PoolStats, TaskRecord
from transport.errors import NotFound
from transport.limits import MAX_DEAD_LETTERS

from .client import Muster
from .session.fold import Session, apply
from .session.task import Spent, TaskView

HOUR_MS = 3600 * 1000
# So many roots are followed: more than a screen shows.
MAX_FOLLOWED = 64
TREND_MS = 30_000  # a queue that grows for half a minute is not a burst


@dataclass(frozen=True, slots=True)
class Going:
    """A root that has not ended, and its trace as it is now."""

    record: TaskRecord
    view: Session

    @property
    def asks(self) -> dict[str, str]:
        """The open questions by their ids."""
        return {ask_id: text for task in self.view.tasks.values() for ask_id, text in task.asks.items()}

    @property
    def tasks_ended(self) -> int:
        return sum(task.ended for task in self._below())

    @property
    def tasks(self) -> int:
        """That it has started so far, without itself."""
        return sum(1 for _ in self._below())

    @property
    def running(self) -> int:
        return sum(task.state is State.RUNNING for task in self._below())

    def microusd_per_hour(self, now_ms: int) -> int:
        """At its pace so far."""
        started = self.record.started_at_ms
        return 0 if started is None else self.view.cost_microusd * HOUR_MS // max(1, now_ms - started)

    def _below(self) -> Iterator[TaskView]:
        return (task for task in self.view.tasks.values() if task.task_id != self.view.root)


@dataclass(frozen=True, slots=True)
class AtWork:
    """A model in all that is under way: how many tasks it works on now, and what it took so far."""

    tasks: int
    spent: Spent


@dataclass(frozen=True, slots=True)
class Overview:
    """`others` counts roots that are under way and not among `going`."""

    now_ms: int
    pools: Sequence[PoolStats]
    workers: Sequence[WorkerCard]
    going: Sequence[Going]
    others: int = 0
    dead: int = 0  # letters
    grown: Mapping[str, int] = field(default_factory=dict[str, int])  # what waits by pool, since `TREND_MS` ago

    @property
    def models(self) -> dict[str, AtWork]:
        """What each model does in all that is followed; the one with the most work comes first."""
        tasks = [task for one in self.going for task in one.view.tasks.values()]
        names = {name for task in tasks for name in task.by_model} | {task.model for task in tasks if _calls(task)}
        known = {name: _at_work(name, tasks) for name in names if name}
        return dict(sorted(known.items(), key=lambda each: (-each[1].tasks, -each[1].spent.cost_microusd, each[0])))

    @property
    def microusd_per_hour(self) -> int:
        return sum(one.microusd_per_hour(self.now_ms) for one in self.going)

    @property
    def cost_microusd(self) -> int:
        return sum(one.view.cost_microusd for one in self.going)

    @property
    def asks(self) -> int:
        return sum(len(one.asks) for one in self.going)

    @property
    def without_money(self) -> int:
        """Tasks that go on once a cap is raised."""
        return sum(one.view.without_money for one in self.going)

    def cards_of(self, pool: str) -> list[WorkerCard]:
        return [card for card in self.workers if card.pool == pool]

    def as_json(self) -> dict[str, Any]:
        """`others`: how many are under way beside those in `going`, which alone are looked into."""
        return {
            "now_ms": self.now_ms,
            "cost_microusd": self.cost_microusd,
            "microusd_per_hour": self.microusd_per_hour,
            "pools": [
                {
                    **asdict(pool),
                    "workers": len(cards),
                    "slots": sum(card.slots for card in cards),
                    "grown": self.grown.get(pool.pool, 0),
                }
                for pool, cards in ((pool, self.cards_of(pool.pool)) for pool in self.pools)
            ],
            "dead_letters": self.dead,
            "models": [
                {
                    "model": name,
                    "tasks": one.tasks,
                    "tokens": one.spent.usage.total_tokens,
                    "cost_microusd": one.spent.cost_microusd,
                }
                for name, one in self.models.items()
            ],
            "going": [_going_json(one) for one in self.going],
            "others": self.others,
        }


def _calls(task: TaskView) -> bool:
    return task.state is State.RUNNING and bool(task.model)


def _at_work(model: str, tasks: Sequence[TaskView]) -> AtWork:
    spent = sum((task.by_model[model] for task in tasks if model in task.by_model), start=Spent())
    return AtWork(sum(_calls(task) and task.model == model for task in tasks), spent)


def _going_json(one: Going) -> dict[str, Any]:
    return {
        "task_id": one.record.task_id,
        "trace_id": one.record.trace_id,
        "agent": one.record.agent,
        "state": one.record.state,
        "intent": one.record.intent,
        "started_at_ms": one.record.started_at_ms,
        "tasks": one.tasks,
        "running": one.running,
        "tasks_ended": one.tasks_ended,
        "tokens": one.view.usage.total_tokens,
        "cost_microusd": one.view.cost_microusd,
        "asks": one.asks,
    }


class Overviews:
    """Looks at a fleet again and again. What was read of a trace is kept, so that a look reads only what is new.

    `tenant`: whose goals and batches are looked at; None for everybody's.
    """

    def __init__(self, muster: Muster, tenant: str | None = None) -> None:
        self._muster = muster
        self._tenant = tenant
        self._views: dict[str, Session] = {}  # by trace
        self._waited: deque[tuple[int, Mapping[str, int]]] = deque()  # when, and what waited by pool

    async def look(self) -> Overview:
        """How it stands now: of what is under way as many as can be followed, the latest that people began, then the
        latest shards of batches."""
        muster = self._muster
        followed, total = await self._roots()
        traces = {root.trace_id for root in followed}
        self._views = {trace: view for trace, view in self._views.items() if trace in traces}
        pools, workers, now_ms, dead = await asyncio.gather(
            muster.pools(), muster.workers(), muster.transport.now_ms(), self._dead()
        )
        views = await asyncio.gather(*map(self._view, followed))
        going = [Going(root, view) for root, view in zip(followed, views, strict=True)]
        grown = self._grown(now_ms, {pool.pool: pool.ready for pool in pools})
        return Overview(now_ms, pools, workers, going, total - len(followed), dead, grown)

    async def _roots(self) -> tuple[list[TaskRecord], int]:
        """Those to follow, and how many there are."""
        live = self._muster.transport.live_roots
        begun, shards = await asyncio.gather(
            *(live(tenant=self._tenant, shards=shards, limit=MAX_FOLLOWED) for shards in (False, True))
        )
        total = (begun.total or 0) + (shards.total or 0)
        followed = [*begun.records, *shards.records][:MAX_FOLLOWED]
        return followed, max(total, len(followed))

    def _grown(self, now_ms: int, waits: Mapping[str, int]) -> Mapping[str, int]:
        self._waited.append((now_ms, waits))
        while self._waited[0][0] < now_ms - TREND_MS:
            self._waited.popleft()
        _, before = self._waited[0]
        return {pool: count - before.get(pool, 0) for pool, count in waits.items()}

    async def _dead(self) -> int:
        transport = self._muster.transport
        if self._tenant is None:
            return await transport.dead_letter_count()
        return len(await transport.dead_letters(tenant=self._tenant, limit=MAX_DEAD_LETTERS))

    async def _view(self, root: TaskRecord) -> Session:
        fresh = Session.of(root.task_id, root.trace_id, agent=root.agent, title=root.intent)
        view = self._views.setdefault(root.trace_id, fresh)
        with suppress(NotFound):  # a failover forgot it meanwhile; whoever waits for it submits it again
            async for entry in self._muster.follow(root.trace_id, after=view.cursor(root.trace_id), wait=False):
                apply(view, entry)
        return view
