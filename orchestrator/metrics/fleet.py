"""Metrics of the whole fleet, as an orchestrator process sees it: a gauge that nobody renews is taken away."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from envelope.agents import WorkerCard
from envelope.budget import MICROUSD_PER_USD
from envelope.lifecycle import State
from transport.base import PoolStats, Transport
from transport.metrics.shown import Rows, Shown
from transport.metrics.table import OTHER
from transport.money import Ledger

from ..ask_texts import AskTexts
from .survey import Survey, survey
from .table import WAITS_FOR

OVERDUE_MS = 60_000  # every process ends what is over, within seconds
TOP_TENANTS = 100
MAX_TENANTS = 500  # that are remembered, and asked for
# What `Transport.counters` counts, of which an alert must see the first one, too.
COUNTERS = {
    "fenced_writes": "fenced_writes_total",
    "lost_leases": "leases_reaped_total",
    "poisoned": "tasks_poisoned_total",
}
# What only Redis knows. Beside it this machine's own figures stand, which stay true while it is away.
LOOKED_AT = (
    *COUNTERS.values(), "tasks_overdue", "dead_letter_tasks", "event_stream_lag_events",
    "queue_ready", "queue_running", "queue_demand", "queue_oldest_ready_age_seconds", "queue_slots", "pool_workers",
    "queue_parked", "batch_shards", "approvals_pending", "approval_oldest_age_seconds",
    "tenant_cost_usd_total", "budget_remaining_ratio",
)  # fmt: skip
# A look for what is new costs one round trip; it must not block.
NEWS_WAIT_S = 0.001


@dataclass(slots=True)
class FleetView:
    """`hears_news`: are there webhooks, which somebody has to tell?"""

    transport: Transport
    shown: Shown
    hears_news: bool = False
    tenants: set[str] = field(default_factory=set[str])
    pools: frozenset[str] = frozenset()
    kinds: set[str] = field(default_factory=set[str])  # of questions that were ever seen open
    _texts: AskTexts = field(init=False)

    def __post_init__(self) -> None:
        self._texts = AskTexts(self.transport)

    async def look(self, pools: Iterable[str]) -> None:
        """The quick look: a few round trips."""
        async with self._or_nothing():
            cards = await self.transport.workers()
            self.pools = frozenset({*pools, *(card.pool for card in cards)})
            self._show_pools(await self.transport.stats(sorted(self.pools)), cards)
            counters = await self.transport.counters()
            for name, metric in COUNTERS.items():
                self.shown.tell(metric, {(): counters.get(name, 0)})
            self.shown.tell("tasks_overdue", {(): await self.transport.overdue(OVERDUE_MS)})
            self.shown.tell("dead_letter_tasks", {(): await self.transport.dead_letter_count()})
            if self.hears_news:
                self.shown.tell("event_stream_lag_events", {(): await self._lag()})

    async def look_around(self) -> None:
        """The long one: what is under way, and the tenants' money."""
        async with self._or_nothing():
            found = await survey(self.transport, self._texts)
            now_ms = await self.transport.now_ms()
            self._show_survey(found, await self.transport.stats(sorted(self.pools)), now_ms)
            known = {*found.tenants, *await self.transport.allotments()}
            self.tenants |= set(sorted(known - self.tenants)[: max(0, MAX_TENANTS - len(self.tenants))])
            tenants = sorted(self.tenants)
            ledgers = await asyncio.gather(*map(self.transport.funds, tenants))
            self._show_money(dict(zip(tenants, ledgers, strict=True)))

    def _show_pools(self, stats: Iterable[PoolStats], cards: Iterable[WorkerCard]) -> None:
        rows = {pool.pool: pool for pool in stats}
        slots, workers = Counter[str](), Counter[str]()
        for card in cards:
            slots[card.pool] += card.slots
            workers[card.pool] += 1
        shown: dict[str, Rows] = {
            "queue_ready": {(name,): pool.ready for name, pool in rows.items()},
            "queue_running": {(name,): pool.running for name, pool in rows.items()},
            "queue_demand": {(name,): pool.ready + pool.running for name, pool in rows.items()},
            "queue_oldest_ready_age_seconds": {(name,): pool.oldest_ready_age_s for name, pool in rows.items()},
            "queue_slots": {(name,): slots[name] for name in rows},
            "pool_workers": {(name,): workers[name] for name in rows},
        }
        for name, told in shown.items():
            self.shown.tell(name, told)

    def _show_survey(self, found: Survey, stats: Iterable[PoolStats], now_ms: int) -> None:
        nobody = {(pool, reason): 0 for pool in self.pools for reason in WAITS_FOR.values}
        for_children = {(pool.pool, "children"): pool.parked for pool in stats}
        self.shown.tell("queue_parked", nobody | for_children | dict(found.parked))
        self.shown.tell("batch_shards", {(state,): found.shards.get(state, 0) for state in State})
        asked = Counter(question.kind for question in found.questions)
        self.kinds |= asked.keys()
        self.shown.tell("approvals_pending", {(kind,): asked[kind] for kind in sorted(self.kinds)})
        oldest_ms = min((each.asked_at_ms for each in found.questions if each.asked_at_ms), default=now_ms)
        self.shown.tell("approval_oldest_age_seconds", {(): max(0, now_ms - oldest_ms) / 1000})

    def _show_money(self, ledgers: dict[str, Ledger]) -> None:
        by_spent = sorted(ledgers, key=lambda tenant: -ledgers[tenant].spent_microusd)
        spent = {(tenant,): ledgers[tenant].spent_microusd / MICROUSD_PER_USD for tenant in by_spent[:TOP_TENANTS]}
        if rest := by_spent[TOP_TENANTS:]:
            spent[OTHER,] = sum(ledgers[tenant].spent_microusd for tenant in rest) / MICROUSD_PER_USD
        self.shown.tell("tenant_cost_usd_total", spent)
        left = {tenant: ratio for tenant, ledger in ledgers.items() if (ratio := remaining_ratio(ledger)) is not None}
        lowest = sorted(left, key=lambda tenant: left[tenant])[:TOP_TENANTS]
        self.shown.tell("budget_remaining_ratio", {(tenant,): left[tenant] for tenant in lowest})

    async def _lag(self) -> int:
        news = await asyncio.gather(*(each.read(wait_s=NEWS_WAIT_S) for each in self.transport.notices))
        return sum(len(each.happenings) for each in news)

    @asynccontextmanager
    async def _or_nothing(self) -> AsyncGenerator[None]:
        """Old figures would say that all is well when nobody can know."""
        try:
            yield
        except Exception:
            self.shown.untell(LOOKED_AT)
            raise


def remaining_ratio(ledger: Ledger) -> float | None:
    """None without a cap.

    >>> remaining_ratio(Ledger(spent_microusd=30, cap_microusd=100, reserved_microusd=10))
    0.6
    """
    if ledger.cap_microusd is None:
        return None
    left = ledger.cap_microusd - ledger.spent_microusd - ledger.reserved_microusd
    return max(0, left) / ledger.cap_microusd if ledger.cap_microusd else 0.0
