"""What asks say. Their texts stand in the events of their traces; who asks again reads only what has happened since."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from envelope.events import AskAnswered, AskOpened
from envelope.messages import TaskProgress, TaskResult
from transport.base import Entry, TaskRecord, Transport
from transport.errors import NotFound

from .lru import LruCache

# As many as are looked into at once: with fewer, each would be gone again by the time that it is looked into next.
KEPT_TRACES = 1000
# Of a trace's asks that are over, the texts of the latest are still kept: a record that was read a moment ago may call
# them open. More than this are not over within a moment, and a text may be of 20 KiB.
KEPT_OVER = 20


@dataclass(frozen=True, slots=True)
class AskText:
    """What was asked, as it was said last, and when it was said first."""

    ask: AskOpened
    since_ms: int = 0


Key = tuple[str, str]  # task and ask


async def text_of(transport: Transport, task: TaskRecord, ask_id: str) -> AskText | None:
    """Of one ask, open or over, as far as the stream still has it."""
    text: AskText | None = None
    with suppress(NotFound):  # a failover has forgotten the trace
        async for entry in transport.follow(task.trace_id, wait=False, about=task.task_id):
            for key, ask, at_ms in _opened(entry):
                if key == (task.task_id, ask_id):
                    text = _once_more(text, ask, at_ms)
    return text


def _opened(entry: Entry) -> Iterator[tuple[Key, AskOpened, int]]:
    told = entry.message
    if isinstance(told, TaskProgress):
        for event in told.events:
            if isinstance(event, AskOpened):
                yield (told.task_id, event.ask_id), event, told.at_ms


def _once_more(known: AskText | None, ask: AskOpened, at_ms: int) -> AskText:
    return AskText(ask, known.since_ms if known else at_ms)


@dataclass(slots=True)
class _Read:
    cursor: str = "0"
    texts: dict[Key, AskText] = field(default_factory=dict[Key, AskText])
    over: dict[Key, None] = field(default_factory=dict[Key, None])  # in this order
    reading: asyncio.Lock = field(default_factory=asyncio.Lock)

    def take(self, entry: Entry) -> None:
        """The stream's next entry: what it asks is kept, and of what is over by it only the latest `KEPT_OVER`."""
        self.cursor, told = entry.id, entry.message
        for key, ask, at_ms in _opened(entry):
            self.over.pop(key, None)
            self.texts[key] = _once_more(self.texts.get(key), ask, at_ms)
        self.over.update(dict.fromkeys(self._over_with(told)))
        for key in list(self.over)[:-KEPT_OVER]:
            del self.over[key]
            self.texts.pop(key, None)

    def _over_with(self, told: TaskProgress | TaskResult) -> Iterator[Key]:
        """A task that was cancelled, or ran out of time, tells of no answer: its end is the end of its asks."""
        if isinstance(told, TaskResult):
            yield from (key for key in self.texts if key[0] == told.task_id)
        else:
            yield from ((told.task_id, event.ask_id) for event in told.events if isinstance(event, AskAnswered))


class AskTexts:
    """Of the traces that were asked about last."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._kept = LruCache[str, _Read](KEPT_TRACES)

    async def of(self, trace_id: str) -> Mapping[Key, AskText]:
        """Of those that are open, with some that were, in the order in which they were opened, as far as the stream has
        ever told it."""
        read = self._kept.get(trace_id) or self._kept.put(trace_id, _Read())
        async with read.reading:
            try:
                async for entry in self._transport.follow(trace_id, after=read.cursor, wait=False):
                    read.take(entry)
            except NotFound:  # a failover has forgotten the trace
                self._kept.drop(trace_id)
        return read.texts
