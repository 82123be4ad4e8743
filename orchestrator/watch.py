"""Following a task and everything that it started, across traces, as one view."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass
from itertools import islice

from envelope.messages import TaskResult
from transport.base import Entry
from transport.errors import NotFound

from .client import Muster
from .session.fold import Session, apply
from .session.task import TaskView

# A shard is a trace of its own; following one costs a blocked connection, and a screen shows no more rows than this.
MAX_SHARDS = 32

Show = Callable[[Session, Entry], None]


async def watch(muster: Muster, view: Session, show: Show) -> Session:
    """Follow the view's root task to its end; `show` sees each step on the way."""
    async with aclosing(steps(muster, view)) as seen:
        async for view, entry in seen:
            show(view, entry)
    return view


def steps(muster: Muster, view: Session) -> AsyncGenerator[tuple[Session, Entry]]:
    """Each step on the way of the view's root task to its end, and the view after it."""
    return _Followers(muster, view).entries()


@dataclass(frozen=True, slots=True)
class _End:
    """A trace has been read to its end, or could not be read further."""

    trace_id: str
    error: Exception | None = None


class _Followers:
    """One reader per trace that is being looked at; what they read meets in one queue."""

    def __init__(self, muster: Muster, view: Session) -> None:
        self._muster = muster
        self._view = view
        self._read: asyncio.Queue[Entry | _End] = asyncio.Queue(maxsize=1000)
        self._readers: dict[str, asyncio.Task[None]] = {}
        self._seen: set[str] = set()

    async def entries(self) -> AsyncGenerator[tuple[Session, Entry]]:
        root = self._view.root_task
        self._follow(root)
        waiting = asyncio.create_task(self._wait_for(root.task_id))
        try:
            while (item := await self._read.get()) != _End(root.trace_id):
                if isinstance(item, _End):
                    self._stop_reading(item)
                elif item.message.trace_id == root.trace_id or item.message.task_id in self._view.tasks:
                    # The others belong to somebody else: a shard or a gate may be shared with another batch. In the
                    # root's own trace a child may have begun before its driver could tell of it.
                    apply(self._view, item)
                    yield self._view, item
                self._follow_shards()
        finally:
            tasks = (waiting, *self._readers.values())
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _wait_for(self, task_id: str) -> None:
        """Whoever waits for the result hears that the server has forgotten the task, and submits it again if it is
        ours; a stream that has gone is only silent."""
        try:
            async for _ in self._muster.results([task_id]):
                pass
        except Exception as e:  # raised again by whoever reads the queue
            await self._read.put(_End("", e))

    def _stop_reading(self, end: _End) -> None:
        if end.error is not None:
            raise end.error
        self._readers.pop(end.trace_id, None)

    def _follow_shards(self) -> None:
        root = self._view.root_task
        waiting = (
            task
            for task in map(self._view.tasks.__getitem__, root.children)
            if not task.ended and task.trace_id and task.trace_id not in self._seen
        )
        others = len(self._readers) - 1  # without the root's
        for task in islice(waiting, max(0, MAX_SHARDS - others)):
            self._follow(task)

    def _follow(self, task: TaskView) -> None:
        """Read a task's trace until the task has ended, which is not the trace's end if it is another's child."""
        self._seen.add(task.trace_id)
        self._readers[task.trace_id] = asyncio.create_task(self._read_all(task.trace_id, task.task_id))

    async def _read_all(self, trace_id: str, task_id: str) -> None:
        error = None
        try:
            while not await self._read_known(trace_id, task_id):
                await self._muster.submit_forgotten(task_id)
        except NotFound as e:
            # a shard that a failover forgot: its batch does it again, and tells of it; of the root nobody else does
            error = e if task_id == self._view.root else None
        except Exception as e:  # not ours to judge here: raised again by whoever reads the queue
            error = e
        await self._read.put(_End(trace_id, error))

    async def _read_known(self, trace_id: str, task_id: str) -> bool:
        """To the task's end (True), or until the server has forgotten the trace of a root that may be ours."""
        try:
            async for entry in self._muster.follow(trace_id, after=self._view.cursor(trace_id)):
                await self._read.put(entry)
                if entry.message.task_id == task_id and isinstance(entry.message, TaskResult):
                    break
        except NotFound:
            if task_id != self._view.root:
                raise
            return False
        return True
