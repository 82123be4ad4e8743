"""The money of a batch: equal parts to begin with, and what some leave over goes to those that need more.

What every task may spend stands in its own ledger, so that a driver that was restarted counts as the one before it did:
all ledgers of live shards, also of those that it has not come to again, what has been spent, and what is kept for
shards between two steps are never more than the batch may spend.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TypeVar

from envelope.budget import Budget
from transport.errors import NotFound

from ..driver import Driver
from .earlier import Earlier

T = TypeVar("T")
AT_ONCE = 100  # ledgers that are read or raised at once


@dataclass(slots=True)
class Fund:
    """`seats` are the shards that are not done, each with what it may spend in all its steps; at first a `part`.

    `cap_microusd`: None where no money is spent, or as much as anybody likes.
    """

    driver: Driver
    cap_microusd: int | None
    part: int
    earlier: Earlier
    seats: dict[str, int] = field(default_factory=dict[str, int])
    spent: dict[str, int] = field(default_factory=dict[str, int])  # by tasks that have ended
    _shares_at: int = 0
    _sharing: asyncio.Lock = field(default_factory=asyncio.Lock)  # what is left must not be given away twice

    @classmethod
    def of(cls, driver: Driver, seats: Sequence[str], *, concluded: int, asks_a_model: bool) -> Fund:
        """`concluded`: shards that an attempt before this one is done with; what they have spent is `earlier`'s."""
        cap = driver.request.budget.max_cost_microusd if asks_a_model else None
        count = len(seats) + concluded
        part = (cap or 0) // max(1, count)
        return cls(driver, cap, part, Earlier(driver), dict.fromkeys(seats, part), dict.fromkeys(seats, 0), count // 2)

    def budget(self, seat: str) -> Budget:
        """Of the seat's next task."""
        whole = self.driver.request.budget
        if self.cap_microusd is None:
            return whole.model_copy(update={"max_cost_microusd": None, "waits_at_cap": False})
        return whole.model_copy(update={"max_cost_microusd": self._left(seat)})

    def spend(self, seat: str, cost_microusd: int) -> None:
        self.spent[seat] += cost_microusd

    async def take_spare(self, seat: str, key: str) -> Budget:
        """All that is left over goes to one more seat, for a task that is done after the shards, until it is closed.

        `key`: the task's. Who has it already, since before a restart, has what it was given then.
        """
        async with self._sharing:
            if not await self._take_back(seat, key):
                self.seats[seat] = await self._spare() + self.spent.setdefault(seat, 0)
        return self.budget(seat)

    async def close(self, seat: str, *, spent_microusd: int = 0) -> None:
        """The shard is done. Each time that half of them are, what these have left is shared among the others."""
        self.spent[seat] = self.spent.get(seat, 0) + spent_microusd
        self.seats.pop(seat, None)
        if self.seats and len(self.seats) <= self._shares_at:
            self._shares_at = len(self.seats) // 2
            await self._share()

    async def grant(self, keys: Mapping[str, str]) -> frozenset[str]:
        """Share what is left among these seats, whose money is spent; those that have as much as at first may go on.

        `keys`: of the seats' next tasks. Who has one already, since before a restart, goes on with it.
        """
        async with self._sharing:
            back = {seat for seat, key in keys.items() if await self._take_back(seat, key)}
            others = [seat for seat in keys if seat not in back]
            if others:
                self._give(others, await self._spare())
        return frozenset(back | {seat for seat in others if self._left(seat) >= max(1, self.part)})

    async def _take_back(self, seat: str, key: str) -> bool:
        given = await self.earlier.take(key) if self.cap_microusd is not None else None
        if given is not None:
            self.seats[seat] = self.spent.setdefault(seat, 0) + given
        return given is not None

    async def share_raised(self, cap_microusd: int) -> bool:
        """Among the shards that are at work, where there are any; whether anybody is there at all."""
        self.cap_microusd = cap_microusd
        live = self.driver.live_traces()
        await self._share([seat for seat in self.seats if seat in live])
        return bool(self.seats)

    async def _share(self, among: Sequence[str] = ()) -> None:
        async with self._sharing:
            spare = await self._spare()
            seats = [seat for seat in among if seat in self.seats] or list(self.seats)  # some may have been closed
            if not self._give(seats, spare):
                return
            live = self.driver.live_traces()
            for some in _in_groups([(seat, live[seat]) for seat in seats if seat in live]):
                await asyncio.gather(*(self._raise(trace_id, self._left(seat)) for seat, trace_id in some))

    def _give(self, seats: Sequence[str], spare: int) -> int:
        each = spare // max(1, len(seats))
        for seat in seats:
            self.seats[seat] += each
        return each

    def _left(self, seat: str) -> int:
        return max(0, self.seats.get(seat, 0) - self.spent[seat])

    async def _raise(self, trace_id: str, cap_microusd: int) -> None:
        with suppress(NotFound):  # forgotten in a failover, and about to be submitted again
            await self.driver.transport.raise_cap(trace_id, cap_microusd, by=self.driver.request.task_id)

    async def _spare(self) -> int:
        """What nobody has spent, nor may spend as things are."""
        if self.cap_microusd is None:
            return 0
        live = self.driver.live_traces()
        allowed = 0
        for some in _in_groups(list(live.items())):
            allowed += sum(await asyncio.gather(*(self._allowed(seat, trace_id) for seat, trace_id in some)))
        kept = sum(self._left(seat) for seat in self.seats if seat not in live)
        held = await self.earlier.held_microusd()
        return max(0, self.cap_microusd - sum(self.spent.values()) - allowed - kept - held)

    async def _allowed(self, seat: str, trace_id: str) -> int:
        """A recipe's trace has no cap: what its shard is to have for its agent's step is kept."""
        cap = None
        with suppress(NotFound):
            cap = (await self.driver.transport.ledger(trace_id)).cap_microusd
        return self._left(seat) if cap is None else cap


def _in_groups(things: Sequence[T]) -> Iterable[Sequence[T]]:
    return (things[start : start + AT_ONCE] for start in range(0, len(things), AT_ONCE))
