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

MANY = 5_000  # each takes some 20 microseconds
THREADS_AT_ONCE = 2  # they share one interpreter: more would be no sooner done

T = TypeVar("T")
Asking = tuple[str, str]


class FairSemaphore:
    """At most `limit` at once, and `each` of one. Next is whoever has the fewest; of those, who came first.

    `of` is the piece of work that somebody asks for: his own share the turns in the same way, and one of them has half
    of what is his."""

    def __init__(self, limit: int, each: int | None = None) -> None:
        self._free = limit
        self._each = limit if each is None else each
        self._running: Counter[str] = Counter()
        self._running_of: Counter[Asking] = Counter()
        self._waiting: dict[Asking, deque[tuple[int, asyncio.Future[None]]]] = {}
        self._came = count()

    async def acquire(self, who: str, of: str = "") -> None:
        """Who has a turn gives it back with `release`."""
        turn = asyncio.get_running_loop().create_future()
        self._waiting.setdefault((who, of), deque()).append((next(self._came), turn))
        self._admit()
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():  # the turn came, and then the end of who waited for it
                self.release(who, of)
            raise

    def release(self, who: str, of: str = "") -> None:
        self._free += 1
        self._running[who] -= 1
        self._running_of[who, of] -= 1
        self._running, self._running_of = +self._running, +self._running_of
        self._admit()

    @asynccontextmanager
    async def turn(self, who: str, of: str = "") -> AsyncGenerator[None]:
        await self.acquire(who, of)
        try:
            yield
        finally:
            self.release(who, of)

    def _admit(self) -> None:
        while self._free and (waiting := [asking for asking in [*self._waiting] if self._may_have(asking)]):
            who, of = asking = min(
                waiting, key=lambda each: (self._running[each[0]], self._running_of[each], self._waiting[each][0][0])
            )
            _, turn = self._waiting[asking].popleft()
            self._free -= 1
            self._running[who] += 1
            self._running_of[who, of] += 1
            turn.set_result(None)

    def _may_have(self, asking: Asking) -> bool:
        line = self._waiting[asking]
        while line and line[0][1].done():  # waits no more
            line.popleft()
        if not line:
            del self._waiting[asking]
            return False
        who, of = asking
        of_one = (self._each + 1) // 2 if of else self._each
        return self._running[who] < self._each and self._running_of[asking] < of_one


class Threads:
    """Work on what strangers wrote that takes seconds: beside the event loop, where all else goes on, and in threads of
    its own, which nothing else waits for."""

    def __init__(self, limit: int = THREADS_AT_ONCE, each: int | None = None) -> None:
        self._turns = FairSemaphore(limit, each)
        self._threads = ThreadPoolExecutor(limit, thread_name_prefix="beside")

    async def run(self, who: str, work: Callable[[], T], of: str = "") -> T:
        """A thread cannot be stopped: whoever is cancelled here leaves it its turn until it has ended by itself."""
        await self._turns.acquire(who, of)
        context = contextvars.copy_context()
        thread = asyncio.get_running_loop().run_in_executor(self._threads, lambda: context.run(work))
        thread.add_done_callback(lambda _: self._turns.release(who, of))
        return await asyncio.shield(thread)


beside = Threads()  # of this process, for what strangers wrote and its tasks read


async def at_once(count: int, work: Callable[[], T]) -> T:
    """Work on so many things: beside the event loop where they are very many."""
    return work() if count < MANY else await beside.run("", work)
