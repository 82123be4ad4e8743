"""The money of a batch: equal parts to begin with, and what some leave over goes to those that need more.

What every task may spend stands in its own ledger, so that a driver that was restarted counts as the one before it did:
all ledgers of live shards, what has been spent, and what is kept for shards between two steps are never more than the
batch may spend.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TypeVar

from envelope.budget import Budget
from transport.errors import NotFound

from ..driver import Driver

T = TypeVar("T")
AT_ONCE = 100  # ledgers that are read or raised at once


@dataclass(slots=True)
class Fund:
    """`seats` are the shards that are not done, each with what it may spend in all its steps."""

    driver: Driver
    seats: dict[str, int] = field(default_factory=dict[str, int])
    spent: dict[str, int] = field(default_factory=dict[str, int])  # by tasks that have ended
    _shares_at: int = 0

    @classmethod
    def of(cls, driver: Driver, seats: Sequence[str]) -> Fund:
        part = (driver.request.budget.max_cost_microusd or 0) // max(1, len(seats))
        return cls(driver, dict.fromkeys(seats, part), dict.fromkeys(seats, 0), len(seats) // 2)

    def budget(self, seat: str) -> Budget:
        """Of the seat's next task."""
        if self.driver.request.budget.max_cost_microusd is None:
            return Budget()
        left = max(0, self.seats.get(seat, 0) - self.spent[seat])
        return Budget(max_cost_microusd=left, waits_at_cap=self.driver.request.budget.waits_at_cap)

    def spend(self, seat: str, cost_microusd: int) -> None:
        self.spent[seat] += cost_microusd

    async def close(self, seat: str) -> None:
        """The shard is done. Each time that half of them are, what these have left is shared among the others."""
        self.seats.pop(seat, None)
        if self.seats and len(self.seats) <= self._shares_at:
            self._shares_at = len(self.seats) // 2
            await self._share(list(self.seats))

    async def grant(self, seats: Sequence[str]) -> bool:
        """Give these, which have nothing left, as much as there is; False when that is less than they had at first."""
        each = await self._spare() // max(1, len(seats))
        if not seats or each < max(1, min(self.seats.get(seat, 0) for seat in seats)):
            return False
        for seat in seats:
            self.seats[seat] += each
        return True

    async def _share(self, seats: Sequence[str]) -> None:
        each = await self._spare() // len(seats)
        if each <= 0:
            return
        for seat in seats:
            self.seats[seat] += each
        live = self.driver.live_traces()
        for some in _in_groups([(seat, live[seat]) for seat in seats if seat in live]):
            await asyncio.gather(
                *(self._raise(trace_id, self.seats[seat] - self.spent[seat]) for seat, trace_id in some)
            )

    async def _raise(self, trace_id: str, cap_microusd: int) -> None:
        with suppress(NotFound):  # forgotten in a failover, and about to be submitted again
            await self.driver.transport.raise_cap(trace_id, cap_microusd, by=self.driver.request.task_id)

    async def _spare(self) -> int:
        """What nobody has spent, nor may spend as things are."""
        cap = self.driver.request.budget.max_cost_microusd
        if cap is None:
            return 0
        live = self.driver.live_traces()
        allowed = 0
        for some in _in_groups(list(live.values())):
            allowed += sum(await asyncio.gather(*map(self._allowed, some)))
        kept = sum(max(0, part - self.spent[seat]) for seat, part in self.seats.items() if seat not in live)
        return max(0, cap - sum(self.spent.values()) - allowed - kept)

    async def _allowed(self, trace_id: str) -> int:
        try:
            return (await self.driver.transport.ledger(trace_id)).cap_microusd or 0
        except NotFound:
            return 0


def _in_groups(things: Sequence[T]) -> Iterable[Sequence[T]]:
    return (things[start : start + AT_ONCE] for start in range(0, len(things), AT_ONCE))
