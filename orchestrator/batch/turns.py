"""Who of many may use this machine now: a few at a time, and of those that wait the first by its number.

So one repository is concluded before many are begun. All at once, they would all be concluded at the end, and a driver
that is killed before that would have come to nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count


@dataclass(slots=True)
class Turns:
    at_once: int
    _busy: int = 0
    _waiting: list[tuple[int, int, asyncio.Future[None]]] = field(
        default_factory=list[tuple[int, int, "asyncio.Future[None]"]]
    )
    _asked: count[int] = field(default_factory=count)  # of two with one number the first who came

    async def take(self, number: int) -> None:
        """Wait for a turn; whoever took one gives it back with `give`. Who is cancelled in line has none."""
        if self._busy < self.at_once:
            self._busy += 1
            return
        given: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heappush(self._waiting, (number, next(self._asked), given))
        try:
            await given
        except asyncio.CancelledError:
            if not given.cancelled():  # it came at the same moment, and is somebody else's now
                self.give()
            raise

    def give(self) -> None:
        while self._waiting:
            _, _, given = heappop(self._waiting)
            if not given.done():
                given.set_result(None)
                return
        self._busy -= 1


@dataclass(slots=True)
class Turn:
    """One repository's."""

    turns: Turns
    number: int
    _is_held: bool = False

    @asynccontextmanager
    async def held(self) -> AsyncGenerator[None]:
        await self._take()
        try:
            yield
        finally:
            self._give()

    @asynccontextmanager
    async def away(self) -> AsyncGenerator[None]:
        """While it waits for others, the turn is someone else's."""
        self._give()
        yield
        await self._take()

    async def _take(self) -> None:
        await self.turns.take(self.number)
        self._is_held = True

    def _give(self) -> None:
        if self._is_held:
            self._is_held = False
            self.turns.give()
