"""The results of one cell's tasks. All who wait for some in this process share one reader.

The reader has a stream of its own, `news:{process}`. `await.lua` writes the process's name into the record of each task
that is waited for, and whatever ends the task tells the stream. So an end costs the server the same however many others
wait for other tasks. An answer that is lost on its way can be read again.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Iterable, Sequence
from itertools import islice
from typing import NamedTuple

from envelope.codec import decode_result
from envelope.errors import EnvelopeError, ErrorCode
from envelope.logs import get_logger
from envelope.messages import TaskResult

from ..base import Lease
from ..delivery import failed
from ..errors import NotPermitted, TransportError, no_task
from .cell import Cell
from .client import MAX_BLOCK_S

# Tasks in one round trip: about 50 KB of names, a millisecond of the server's time.
AT_ONCE = 500
# A safety net: a failover may forget who waits, or the task; a late reader may find its stream trimmed.
SWEEP_S = 30.0
# The server drops the stream of a process that has asked for nothing for so long. Longer than a sweep, which asks.
NEWS_MS = 90_000
# Tasks whose ends the server does not announce are polled: once a second, and less often when they are many.
POLL_S = 1.0
POLLED_IN_A_SECOND = 1_000

# What `await.lua` says of a task.
UNKNOWN, WAITS, ENDED, CROWDED = -1, 0, 1, 2

_log = get_logger("results")


class End(NamedTuple):
    """What is on record of a task: `state` is None for an unknown one, `result` until it has ended."""

    task_id: str
    state: bytes | None
    finished_at_ms: int
    result: bytes | None


async def ends(cell: Cell, task_ids: Sequence[str]) -> list[End]:
    """In the order in which the tasks ended; those that have not ended come first."""
    rows: list[list[bytes | None]] = []
    for start in range(0, len(task_ids), AT_ONCE):
        names = [cell.keys.name("task", task) for task in task_ids[start : start + AT_ONCE]]
        rows += await cell.client.read_many([("HMGET", name, "state", "finished", "result") for name in names])
    found = [
        End(task_id, state, int(finished or 0), result if finished else None)
        for task_id, (state, finished, result) in zip(task_ids, rows, strict=True)
    ]
    return sorted(found, key=lambda end: end.finished_at_ms)


def result_from(task_id: str, data: bytes) -> TaskResult:
    """Who waits for a task must hear of its end, also when what was stored cannot be read."""
    try:
        return decode_result(data)
    except EnvelopeError as error:
        lease = Lease(task_id, "0" * 32, "", "", 0)
        return failed(lease, ErrorCode.INTERNAL, f"the stored result cannot be read: {error.message}")


class Results:
    """Belongs to one process and one cell. A task that nobody waits for any more is forgotten here at once, and by the
    server when it ends."""

    def __init__(self, cell: Cell) -> None:
        self._cell = cell
        self._process = secrets.token_hex(8)
        self._waiters: dict[str, set[_Waiter]] = {}  # by task
        self._new: dict[str, None] = {}  # tasks to ask the server to tell of
        self._untold: set[str] = set()  # tasks of which it will not tell
        self._told = True  # False: our role may ask for nothing
        self._last = "0-0"
        self._asking: asyncio.Task[None] | None = None
        self._reading: asyncio.Task[None] | None = None

    async def of(self, task_ids: Iterable[str]) -> AsyncIterator[TaskResult]:
        """First those that ended before, then the others as they end. `NotFound` as soon as one is not known."""
        waiter = _Waiter(task_ids)
        self._enter(waiter)
        try:
            while waiter.expects_more:
                for result in await waiter.next():
                    yield result
        finally:
            self._leave(waiter)

    async def close(self) -> None:
        self._fail(TransportError("the transport is closed", hint="connect again"))
        running = [task for task in (self._asking, self._reading) if task]
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    def _enter(self, waiter: _Waiter) -> None:
        for task_id in waiter.wanted:
            self._waiters.setdefault(task_id, set()).add(waiter)
        self._ask_for(waiter.wanted)

    def _leave(self, waiter: _Waiter) -> None:
        for task_id in waiter.wanted:
            others = self._waiters.get(task_id, set())
            others.discard(waiter)
            if not others:
                self._waiters.pop(task_id, None)
                self._untold.discard(task_id)

    # -- asking to be told

    def _ask_for(self, task_ids: Iterable[str]) -> None:
        self._new.update(dict.fromkeys(task_ids))
        if self._new and self._asking is None:
            self._asking = asyncio.create_task(self._ask())

    async def _ask(self) -> None:
        """What comes in while one call is under way goes out together in the next."""
        try:
            while self._new:
                some = list(islice(self._new, AT_ONCE))
                for task_id in some:
                    del self._new[task_id]
                waiters = {waiter for task_id in some for waiter in self._waiters.get(task_id, ())}
                await self._ask_some([task_id for task_id in some if task_id in self._waiters])
                for waiter in waiters:
                    waiter.has_asked(some)
            if self._waiters and self._reading is None:
                self._reading = asyncio.create_task(self._read())
        except Exception as error:  # whatever it is, those who wait must hear of it
            self._fail(error)
        finally:
            self._asking = None

    async def _ask_some(self, task_ids: Sequence[str]) -> None:
        if not task_ids:  # whoever waited has gone meanwhile
            return
        said = await self._await(task_ids) if self._told else None
        if said is None:
            self._untold.update(task_ids)
            await self._look_at(task_ids)
            return
        is_new, *states = said
        if is_new:  # the server forgot who waits, or we were silent for too long
            self._last = "0-0"
            self._new.update(dict.fromkeys(self._waiters.keys() - set(task_ids)))
        by_state = list(zip(task_ids, states, strict=True))
        self._untold.difference_update(task_ids)
        self._untold.update(task_id for task_id, state in by_state if state == CROWDED and task_id in self._waiters)
        await self._look_at([task_id for task_id, state in by_state if state in (UNKNOWN, ENDED)])

    async def _await(self, task_ids: Sequence[str]) -> list[int] | None:
        try:
            return await self._cell.run(
                "await", repeatable=True, process=self._process, tasks=task_ids, news_ms=NEWS_MS
            )
        except NotPermitted:  # a role that only reads
            self._told = False
            return None

    # -- being told

    async def _read(self) -> None:
        loop = asyncio.get_running_loop()
        sweep_at = loop.time() + SWEEP_S
        try:
            while self._waiters:
                await self._look_at(await self._news())
                if self._untold:
                    await self._look_at(list(self._untold))
                if loop.time() >= sweep_at:
                    self._ask_for(self._waiters)
                    sweep_at = loop.time() + SWEEP_S
        except Exception as error:  # as above
            self._fail(error)
        finally:
            self._reading = None

    async def _news(self) -> list[str]:
        """Tasks that ended, or none after a while."""
        name, block_s = self._cell.keys.name("news", self._process), MAX_BLOCK_S
        if self._untold:
            block_s = max(POLL_S, len(self._untold) / POLLED_IN_A_SECOND)
        commands = ("XREAD", "COUNT", AT_ONCE, "BLOCK", int(block_s * 1000), "STREAMS", name, self._last)
        pages = await self._cell.client.block(*commands, for_s=block_s, repeatable=True)
        page: list[tuple[bytes, list[bytes]]] = pages[0][1] if pages else []
        if page:
            self._last = page[-1][0].decode()
        return [task_id for _, (_, ids) in page for task_id in ids.decode().split()]

    async def _look_at(self, task_ids: Iterable[str]) -> None:
        """Hand on what has ended of these."""
        for end in await ends(self._cell, [task_id for task_id in task_ids if task_id in self._waiters]):
            if end.state is None:
                for waiter in self._waiters.get(end.task_id, ()):
                    waiter.fail(no_task(end.task_id))
            elif end.result:
                self._untold.discard(end.task_id)
                result = result_from(end.task_id, end.result)
                for waiter in self._waiters.pop(end.task_id, ()):
                    waiter.take(end.finished_at_ms, result)

    def _fail(self, error: Exception) -> None:
        for waiter in {waiter for waiters in self._waiters.values() for waiter in waiters}:
            waiter.fail(error)


class _Waiter:
    """One who waits for some tasks."""

    def __init__(self, task_ids: Iterable[str]) -> None:
        self.wanted = dict.fromkeys(task_ids)
        self._unasked = set(self.wanted)  # while there are any, what ended before may still come
        self._came: list[tuple[int, TaskResult]] = []
        self._failure: Exception | None = None
        self._moved = asyncio.Event()

    @property
    def expects_more(self) -> bool:
        return bool(self.wanted or self._came)

    def has_asked(self, task_ids: Iterable[str]) -> None:
        self._unasked.difference_update(task_ids)
        self._moved.set()

    def take(self, finished_at_ms: int, result: TaskResult) -> None:
        """Its task is no longer wanted."""
        del self.wanted[result.task_id]
        self._unasked.discard(result.task_id)
        self._came.append((finished_at_ms, result))
        self._moved.set()

    def fail(self, error: Exception) -> None:
        self._failure = self._failure or error
        self._moved.set()

    async def next(self) -> list[TaskResult]:
        """What came since the last time, in the order in which it ended."""
        while self._failure is None and (self._unasked or not self._came):
            self._moved.clear()
            await self._moved.wait()
        if self._failure is not None:
            raise self._failure
        came, self._came = sorted(self._came, key=lambda one: one[0]), []
        return [result for _, result in came]
