"""What asks say. Their texts stand in the events of their traces; who asks again reads only what has happened since."""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from envelope.events import AskAnswered, AskOpened
from envelope.messages import TaskProgress
from transport.base import Entry, TaskRecord, Transport
from transport.errors import NotFound

KEPT_TRACES = 32
# Answered ones whose texts are still kept: a record that was read a moment ago may call them open.
KEPT_OVER = 100


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
    over: deque[Key] = field(default_factory=deque[Key])
    reading: asyncio.Lock = field(default_factory=asyncio.Lock)

    def take(self, entry: Entry) -> None:
        self.cursor, told = entry.id, entry.message
        for key, ask, at_ms in _opened(entry):
            self.texts[key] = _once_more(self.texts.get(key), ask, at_ms)
        for event in told.events if isinstance(told, TaskProgress) else ():
            if isinstance(event, AskAnswered):
                self.over.append((told.task_id, event.ask_id))
        while len(self.over) > KEPT_OVER:
            self.texts.pop(self.over.popleft(), None)


class AskTexts:
    """Of the traces that were asked about last."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._kept: OrderedDict[str, _Read] = OrderedDict()

    async def of(self, trace_id: str) -> Mapping[Key, AskText]:
        """Of the open ones, in the order in which they were opened, as far as the stream has ever told it."""
        read = self._kept.setdefault(trace_id, _Read())
        self._kept.move_to_end(trace_id)
        if len(self._kept) > KEPT_TRACES:
            self._kept.popitem(last=False)
        async with read.reading:
            try:
                async for entry in self._transport.follow(trace_id, after=read.cursor, wait=False):
                    read.take(entry)
            except NotFound:  # a failover has forgotten the trace
                self._kept.pop(trace_id, None)
        return read.texts
