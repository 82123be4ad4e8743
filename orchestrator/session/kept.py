"""Folds that are kept between reads: who asks again for a trace reads only what has happened since."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator
from dataclasses import dataclass, field

from envelope.events import ChildEnded, ChildSpawned
from envelope.messages import TaskResult
from transport.base import Entry, Transport
from transport.errors import NotFound

from ..lru import LruCache
from .fold import Session, apply

# A tree of 1,000 tasks takes about 3 MB. What is dropped is folded again when somebody asks.
KEPT_TRACES = 32
# Eyes see no more than ten pictures a second; what happens meanwhile is one change.
COALESCED_S = 0.1


@dataclass(slots=True)
class _Kept:
    session: Session
    reading: asyncio.Lock = field(default_factory=asyncio.Lock)  # two readers would both apply the same entries


class Folds:
    """The traces that were asked for last."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._kept = LruCache[str, _Kept](KEPT_TRACES)

    async def watch(self, trace_id: str) -> AsyncGenerator[tuple[Session, set[str]]]:
        """The trace as it goes on, with the tasks that have changed since the last time (at first all of them), until
        its root has ended. The session is the one that goes on changing: look at it before the next step.
        """
        session = (await self._folded(trace_id)).session  # which may be kept no longer, where many are watched
        changed, moved = set(session.tasks), asyncio.Event()
        cursor = session.cursor(trace_id)  # now: what others fold from here on must be told
        moved.set()

        async def read() -> None:
            try:
                async for entry in self._transport.follow(trace_id, after=cursor):
                    apply(session, entry)  # where `of` was faster this changes nothing, and must be told all the same
                    changed.update(_touched(session, entry))
                    moved.set()
            finally:
                moved.set()

        reading = asyncio.create_task(read())
        try:
            while not reading.done() or changed:
                await moved.wait()
                moved.clear()
                if changed:
                    told, changed = changed, set[str]()
                    yield session, told
                if not reading.done():
                    await asyncio.wait({reading}, timeout=COALESCED_S)
            reading.result()
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)

    async def of(self, trace_id: str) -> Session:
        """The trace as it is now, read-only. `NotFound` when it is not known, or no longer."""
        return (await self._folded(trace_id)).session.snapshot()

    async def _folded(self, trace_id: str) -> _Kept:
        kept = self._kept.get(trace_id) or self._kept.put(trace_id, await self._begun(trace_id))
        async with kept.reading:
            session = kept.session
            try:
                async for entry in self._transport.follow(trace_id, after=session.cursor(trace_id), wait=False):
                    apply(session, entry)
            except NotFound:
                self._kept.drop(trace_id)
                raise
        return kept

    async def _begun(self, trace_id: str) -> _Kept:
        roots = await self._transport.tasks(trace_id=trace_id, limit=1)
        if not roots:
            raise NotFound(f"there is no trace {trace_id}", hint="see the latest with: muster task list")
        [root] = roots
        return _Kept(Session.of(root.task_id, trace_id, agent=root.agent, title=root.intent))


def _touched(session: Session, entry: Entry) -> Iterator[str]:
    """The tasks that look different after it: a parent counts its children, and tells of them."""
    message = entry.message
    yield message.task_id
    if (task := session.tasks.get(message.task_id)) is not None and task.parent is not None:
        yield task.parent
    if not isinstance(message, TaskResult):
        yield from (event.child_task_id for event in message.events if isinstance(event, ChildSpawned | ChildEnded))
