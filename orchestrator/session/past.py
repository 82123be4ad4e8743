"""What a task said and did until now, kept between reads, and any step of it again. A step is an entry of its own.

Who asks again pays for what has happened since. Of the past itself only places are kept from which to read on, further
apart the longer it is: a step is folded from a place before it, so that no page reads a long past whole.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace

from envelope.messages import TaskResult
from transport.base import Entry, TaskRecord, Transport

from ..lru import LruCache
from ..task_life import Life, begun, is_resync, lived
from .fold import Place, Session, apply
from .task import TaskView
from .transcript import Transcript

# A past takes as much as its transcript's texts. What is dropped is read again when somebody asks.
KEPT_PASTS = 32
# Steps whose blocks are shown with a step of long ago; 5,000 entries are read in a tenth of a second.
SHOWN_STEPS = 5_000
# A place for each so many steps at first; where there are too many places, every second one goes.
FIRST_APART = 250
MAX_PLACES = 64


@dataclass(slots=True)
class Moment:
    """A task after some of its steps. Of its trace it knows what its own entries say, and its parent's of it."""

    session: Session
    transcript: Transcript
    steps: int = 0

    @classmethod
    def before(cls, record: TaskRecord) -> Moment:
        session = Session.of(record.task_id, record.trace_id, agent=record.agent, title=record.intent)
        return cls(session, Transcript(record.task_id))

    @property
    def task(self) -> TaskView:
        return self.session.root_task

    def take(self, entry: Entry) -> set[int]:
        """One entry further: the numbers of the blocks that are new or different."""
        if not apply(self.session, entry):
            return set()
        self.steps += entry.message.task_id == self.session.root
        return self.transcript.take(entry.message)

    def copy(self) -> Moment:
        tasks = {task_id: replace(task) for task_id, task in self.session.tasks.items()}
        session = replace(self.session, tasks=tasks, places=dict(self.session.places))
        return Moment(session, self.transcript.copy(), self.steps)


@dataclass(frozen=True, slots=True)
class _Resume:
    """Where to read on from, and what is known there."""

    steps: int
    at_ms: int
    places: dict[str, Place]
    task: TaskView
    attempt: int
    blocks: int


@dataclass(slots=True)
class Past:
    """Of one task, up to the entry that was read last. `life` is not closed by what the record says of its end."""

    record: TaskRecord
    now: Moment
    life: Life
    reading: asyncio.Lock = field(default_factory=asyncio.Lock)  # two readers would both take the same entries
    _resumes: list[_Resume] = field(default_factory=list[_Resume])
    _apart: int = field(default_factory=lambda: FIRST_APART)

    @classmethod
    def begun(cls, record: TaskRecord) -> Past:
        return cls(record, Moment.before(record), begun(record))

    async def read(self, transport: Transport) -> None:
        """On to what there is now. Where entries that were not read are no longer kept, it begins with what is."""
        if self.life.result is not None:
            return
        async for entry in self._entries(transport, self.now):
            if self._is_cut(entry):
                self.now, self.life, self._resumes = Moment.before(self.record), begun(self.record), []
            self._take(entry)

    async def at(self, transport: Transport, step: int) -> Moment | None:
        """As it was after so many steps; None where their entries are no longer kept."""
        moment = self._before(step - SHOWN_STEPS)
        is_beginning = not moment.steps
        if moment.steps >= step:
            return moment
        async for entry in self._entries(transport, moment):
            if self._is_cut(entry) and (self.life.whole or not is_beginning):
                return None
            moment.take(entry)
            if moment.steps >= step:
                break
        return moment

    def _entries(self, transport: Transport, since: Moment) -> AsyncIterator[Entry]:
        trace_id = self.record.trace_id
        cursor = since.session.cursor(trace_id)
        return transport.follow(trace_id, after=cursor, wait=False, about=self.record.task_id)

    def _is_cut(self, entry: Entry) -> bool:
        message = entry.message
        if isinstance(message, TaskResult) or message.task_id != self.record.task_id:
            return False
        return is_resync(message)

    def _take(self, entry: Entry) -> None:
        steps = self.now.steps
        self.now.take(entry)
        self.life = lived(self.life, self.record.task_id, entry.message)
        if self.now.steps > steps and self.now.steps % self._apart == 0 and not isinstance(entry.message, TaskResult):
            self._keep_place(entry.message.at_ms)

    def _keep_place(self, at_ms: int) -> None:
        now = self.now
        known = replace(now.task), now.transcript.attempt, now.transcript.count
        self._resumes.append(_Resume(now.steps, at_ms, dict(now.session.places), *known))
        if len(self._resumes) > MAX_PLACES:
            self._resumes = self._resumes[1::2]
            self._apart *= 2

    def _before(self, step: int) -> Moment:
        """The latest moment at or before a step from which it can be read on."""
        here = next((each for each in reversed(self._resumes) if each.steps <= step), None)
        if here is None:
            return Moment.before(self.record)
        children = {child: self._as_seen(child, here.at_ms) for child in here.task.children}
        tasks = {self.record.task_id: replace(here.task), **children}
        session = Session(self.record.task_id, tasks, dict(here.places))
        transcript = Transcript(self.record.task_id, count=here.blocks, attempt=here.attempt)
        return Moment(session, transcript, here.steps)

    def _as_seen(self, child: str, at_ms: int) -> TaskView:
        """A child as its parent saw it then."""
        known = self.now.session.tasks[child]
        has_ended = known.parent_saw_at_ms is not None and known.parent_saw_at_ms <= at_ms
        return known if has_ended else replace(known, parent_saw=None, parent_saw_at_ms=None)


class Pasts:
    """Of the tasks that were asked for last."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._kept = LruCache[str, Past](KEPT_PASTS)

    async def of(self, record: TaskRecord) -> Past:
        """Up to now. It goes on changing: look at it before the next step, or at a copy of its `now`."""
        past = self._kept.get(record.task_id) or self._kept.put(record.task_id, Past.begun(record))
        async with past.reading:
            await past.read(self._transport)
        return past

    async def at(self, record: TaskRecord, step: int) -> tuple[Past, Moment]:
        """As it was after so many steps, or all that there are; steps are counted from the first that is still kept."""
        past = await self.of(record)
        moment = await past.at(self._transport, step)
        if moment is None:
            self._kept.drop(record.task_id)
            past = await self.of(record)
            moment = await past.at(self._transport, step) or past.now.copy()
        return past, moment
