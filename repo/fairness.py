"""Turns at what a process can do only a few of at once: whoever asks for many waits for himself, not the others."""

from __future__ import annotations

import asyncio
import contextvars
from collections import Counter, deque
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from itertools import count
from typing import TypeVar

THREADS_AT_ONCE = 2  # they share one interpreter: more would be no sooner done

T = TypeVar("T")


class FairSemaphore:
    """At most `limit` at once, and `each` of one. Next is whoever has the fewest; of those, who came first."""

    def __init__(self, limit: int, each: int | None = None) -> None:
        self._free = limit
        self._each = limit if each is None else each
        self._running: Counter[str] = Counter()
        self._waiting: dict[str, deque[tuple[int, asyncio.Future[None]]]] = {}
        self._came = count()

    async def acquire(self, who: str) -> None:
        """Who has a turn gives it back with `release`."""
        turn = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(who, deque()).append((next(self._came), turn))
        self._admit()
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():  # the turn came, and then the end of who waited for it
                self.release(who)
            else:
                self._forget_gone(who)
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
        while self._free:
            for who in [*self._waiting]:
                self._forget_gone(who)
            waiting = [who for who in self._waiting if self._running[who] < self._each]
            if not waiting:
                return
            who = min(waiting, key=lambda who: (self._running[who], self._waiting[who][0][0]))
            _, turn = self._waiting[who].popleft()
            self._free -= 1
            self._running[who] += 1
            turn.set_result(None)

    def _forget_gone(self, who: str) -> None:
        """Those in front that wait no more. Others are found when they come to the front."""
        line = self._waiting.get(who)
        while line and line[0][1].done():
            line.popleft()
        if line is not None and not line:
            del self._waiting[who]


class Threads:
    """Work on what strangers wrote that takes seconds: beside the event loop, where all else goes on, and in threads of
    its own, which nothing else waits for."""

    def __init__(self, limit: int = THREADS_AT_ONCE, each: int | None = None) -> None:
        self._turns = FairSemaphore(limit, each)
        self._threads = ThreadPoolExecutor(limit, thread_name_prefix="beside")

    async def run(self, who: str, work: Callable[[], T]) -> T:
        """A thread cannot be stopped: whoever is cancelled here leaves it its turn until it has ended by itself."""
        await self._turns.acquire(who)
        context = contextvars.copy_context()
        thread = asyncio.get_running_loop().run_in_executor(self._threads, lambda: context.run(work))
        thread.add_done_callback(lambda _: self._turns.release(who))
        return await asyncio.shield(thread)


beside = Threads()  # of this process, for what strangers wrote and its tasks read
