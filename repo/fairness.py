"""Turns at what a process can do only a few of at once: whoever asks for many waits for himself, not the others."""

from __future__ import annotations

import asyncio
import contextvars
from collections import Counter
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

THREADS_AT_ONCE = 2  # they share one interpreter: more would be no sooner done

T = TypeVar("T")


class FairSemaphore:
    """At most `limit` at once. The next turn is for whoever has the fewest, and of those for who came first."""

    def __init__(self, limit: int) -> None:
        self._free = limit
        self._running: Counter[str] = Counter()
        self._waiting: list[tuple[str, asyncio.Future[None]]] = []

    async def acquire(self, who: str) -> None:
        """Who has a turn gives it back with `release`."""
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append((who, turn))
        self._admit()
        try:
            await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                self._waiting.remove((who, turn))
            else:  # the turn came, and then the end of who waited for it
                self.release(who)
            raise

    def release(self, who: str) -> None:
        self._free += 1
        self._running[who] -= 1
        if not self._running[who]:
            del self._running[who]
        self._admit()

    @asynccontextmanager
    async def turn(self, who: str) -> AsyncGenerator[None]:
        await self.acquire(who)
        try:
            yield
        finally:
            self.release(who)

    def _admit(self) -> None:
        while self._free and (waiting := [each for each in self._waiting if not each[1].done()]):
            who, turn = first = min(waiting, key=lambda each: self._running[each[0]])
            self._waiting.remove(first)
            self._free -= 1
            self._running[who] += 1
            turn.set_result(None)


class Threads:
    """Work on what strangers wrote that takes a processor seconds: beside the event loop, where all else goes on."""

    def __init__(self, limit: int = THREADS_AT_ONCE) -> None:
        self._turns = FairSemaphore(limit)

    async def run(self, who: str, work: Callable[[], T]) -> T:
        """A thread cannot be stopped: whoever is cancelled here leaves it its turn until it has ended by itself."""
        await self._turns.acquire(who)
        context = contextvars.copy_context()
        thread = asyncio.get_running_loop().run_in_executor(None, lambda: context.run(work))
        thread.add_done_callback(lambda _: self._turns.release(who))
        return await asyncio.shield(thread)


beside = Threads()  # of this process, for what strangers wrote and its tasks read
