"""Following a task and everything that it started, across traces, as one session."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass
from itertools import islice

from transport.base import Entry

from ..client import Muster
from ..session import Session, fold

# A shard is a trace of its own; following one costs a blocked connection, and a screen shows no more rows than this.
MAX_TRACES = 32

Show = Callable[[Session, Entry], None]


async def watch(muster: Muster, session: Session, show: Show, *, until: str | None = None) -> Session:
    """Follow the session's root (or the task `until` in its trace) to its end; `show` sees each step on the way."""
    until = until or session.root
    async with aclosing(_Followers(muster, session).entries()) as steps:
        async for session, entry in steps:
            show(session, entry)
            if (task := session.tasks.get(until)) is not None and task.result is not None:
                return session
    return session


@dataclass(frozen=True, slots=True)
class _End:
    """A trace has been read to its end, or could not be read further."""

    trace_id: str
    error: Exception | None = None


class _Followers:
    """One reader per trace that is being looked at; what they read meets in one queue."""

    def __init__(self, muster: Muster, session: Session) -> None:
        self._muster = muster
        self._session = session
        self._read: asyncio.Queue[Entry | _End] = asyncio.Queue(maxsize=1000)
        self._readers: dict[str, asyncio.Task[None]] = {}
        self._seen: set[str] = set()

    async def entries(self) -> AsyncGenerator[tuple[Session, Entry]]:
        root = self._session.root_task.trace_id
        self._follow(root)
        try:
            while (item := await self._read.get()) != _End(root):
                if isinstance(item, Entry):
                    self._session = fold(self._session, item)
                    yield self._session, item
                elif item.error is not None:
                    raise item.error
                else:
                    del self._readers[item.trace_id]
                self._follow_shards()
        finally:
            for reader in self._readers.values():
                reader.cancel()
            await asyncio.gather(*self._readers.values(), return_exceptions=True)

    def _follow_shards(self) -> None:
        root = self._session.root_task
        waiting = (
            task.trace_id
            for task in map(self._session.tasks.__getitem__, root.children)
            if not task.ended and task.trace_id and task.trace_id not in self._seen
        )
        for trace_id in islice(waiting, max(0, MAX_TRACES - len(self._readers))):
            self._follow(trace_id)

    def _follow(self, trace_id: str) -> None:
        self._seen.add(trace_id)
        self._readers[trace_id] = asyncio.create_task(self._read_all(trace_id))

    async def _read_all(self, trace_id: str) -> None:
        error = None
        try:
            async for entry in self._muster.follow(trace_id, after=self._session.cursor(trace_id)):
                await self._read.put(entry)
        except Exception as e:  # not ours to judge here: raised again by whoever reads the queue
            error = e
        await self._read.put(_End(trace_id, error))
