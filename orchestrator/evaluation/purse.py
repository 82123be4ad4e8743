"""The money of a suite: a sample begins only when what it may spend is there."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field


@dataclass(slots=True)
class Purse:
    """`cap_microusd`: None is as much as anybody likes. What is spent and what is held are never more than that, also
    after a restart: samples are asked for in the same order, and those of before have been paid from the same purse."""

    cap_microusd: int | None
    spent_microusd: int = 0
    held_microusd: int = 0
    _changed: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def hold(self, microusd: int) -> bool:
        """Wait until so much is left; False when it never will be."""
        if self.cap_microusd is None:
            return True
        async with self._changed:
            await self._changed.wait_for(lambda: self._left() >= microusd or not self.held_microusd)
            if self._left() < microusd:
                return False
            self.held_microusd += microusd
            return True

    async def pay(self, held_microusd: int, spent_microusd: int) -> None:
        """What was held is let go, and what was spent of it is gone."""
        async with self._changed:
            self.spent_microusd += spent_microusd
            if self.cap_microusd is not None:
                self.held_microusd -= held_microusd
            self._changed.notify_all()

    def _left(self) -> int:
        return (self.cap_microusd or 0) - self.spent_microusd - self.held_microusd
