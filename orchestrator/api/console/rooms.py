"""What many people watch is looked at once.

A room is a picture that changes: parts of a page by their ids. It is looked at while anybody is inside, as often as it
changes or, where nobody tells of changes, at the room's pace. Each visitor gets the parts that have changed since what
they saw last: a slow one skips what came between, one who comes back is told only what they missed.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import cached_property

from .packing import Message

# A whole picture, again and again, until there is no more to come.
Looks = Callable[[], AsyncGenerator[Mapping[str, str]]]
# Of the time, a room spends one part with its looks and leaves so many to others, whoever comes and however often.
SHARE_OF_OTHERS = 5
# But no longer than this at a time: a look that took longer than seconds has waited, for a server that was away, and
# who watches must not wait for many times as long on top.
MAX_OTHERS_S = 10.0
# Somebody who reloads the page finds what was read for them still there.
LINGER_S = 10.0
# Of parts that have gone so many are told to who comes back; with more of them everybody begins anew.
MAX_GONE = 1000
VERSION = re.compile(r"[0-9]{1,18}")  # as no room will ever count further


@dataclass(frozen=True, slots=True)
class Pace:
    """How often to look at what tells nothing of itself. For somebody who has just come the next look is sooner."""

    every_s: float


@dataclass(frozen=True)
class News:
    """Parts that have changed; None for one that is gone. `id` is what a visitor comes back with.

    All who saw the same before are told by one and the same, so that it is written out once.
    """

    id: str
    parts: Mapping[str, str | None]

    @cached_property
    def message(self) -> Message:
        return Message.of(f"id: {self.id}\ndata: {json.dumps(dict(self.parts), separators=(',', ':'))}\n\n")


@dataclass(eq=False, slots=True)
class Room:
    """Without a `pace` each look brings what is new when it comes."""

    looks: Looks
    pace: Pace | None = None
    parts: Mapping[str, str | None] = field(default_factory=dict[str, "str | None"])
    changed: dict[str, int] = field(default_factory=dict[str, int])  # part → the version that changed it
    version: int = 0
    visitors: int = 0
    born: str = field(default_factory=lambda: os.urandom(4).hex())
    _looked_s: float = 0.0  # what is here was seen by a look that began no earlier
    _looked: asyncio.Event = field(default_factory=asyncio.Event)  # of this look; the next one has another
    _wanted: asyncio.Event = field(default_factory=asyncio.Event)  # somebody waits for a look that begins from now on
    _looking: asyncio.Task[None] | None = None
    _news: dict[int, News] = field(default_factory=dict[int, News])  # of this version, by what was seen before it

    async def visit(self, after: str = "", *, silence_s: float | None = None) -> AsyncGenerator[News | None]:
        """What has changed since `after`, and then what changes, until the looks end; None after `silence_s` of nothing
        new. Where there is a pace, who comes first has a page of this moment: no look that began earlier is shown."""
        last, looking, told_s = after, self._look(), time.monotonic()
        came_s = told_s if self.pace and not self._version_of(after) else 0.0
        if came_s:
            self._wanted.set()
        while True:
            seen = self._version_of(last)
            if self.version > seen and (self._looked_s >= came_s or _has_seen_all(looking)):
                news, told_s = self._since(seen), time.monotonic()
                last = news.id
                yield news
            elif looking.done():
                looking.result()  # what went wrong is the visitor's to hear: their page comes again
                return
            elif not await _within(_left_s(silence_s, told_s), self._looked):
                told_s = time.monotonic()
                yield None

    def stop(self) -> None:
        if self._looking is not None:
            self._looking.cancel()

    def _version_of(self, after: str) -> int:
        """0, which is everything, for who comes from an earlier room, or says what no room has said."""
        born, _, version = after.partition("-")
        seen = int(version) if born == self.born and VERSION.fullmatch(version) else 0
        return seen if seen <= self.version else 0

    def _since(self, seen: int) -> News:
        if seen not in self._news:
            changed = {name: self.parts[name] for name, version in self.changed.items() if version > seen}
            self._news[seen] = News(f"{self.born}-{self.version}", changed)
        return self._news[seen]

    def _look(self) -> asyncio.Task[None]:
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._keep_looking())
            self._looking.add_done_callback(self._ended)
        return self._looking

    def _ended(self, looking: asyncio.Task[None]) -> None:
        """What went wrong is the visitors' to hear; where there are none, nobody's."""
        if not looking.cancelled():
            looking.exception()
        self._wake()

    def _wake(self) -> None:
        self._looked.set()
        self._looked = asyncio.Event()

    async def _keep_looking(self) -> None:
        async with aclosing(self.looks()) as looks:
            while True:
                self._wanted.clear()
                began_s = time.monotonic()
                parts = await anext(looks, None)
                if parts is None:
                    return
                self._looked_s = began_s
                self._put(parts)
                self._wake()
                if self.pace:
                    await self._rest(self.pace, time.monotonic() - began_s)

    async def _rest(self, pace: Pace, took_s: float) -> None:
        others_s = min(SHARE_OF_OTHERS * took_s, MAX_OTHERS_S)
        await asyncio.sleep(others_s)
        await _within(max(0.0, pace.every_s - others_s), self._wanted)

    def _put(self, parts: Mapping[str, str]) -> None:
        before = self.parts
        gone = {name: None for name, part in before.items() if part is not None and name not in parts}
        now = {**{name: part for name, part in before.items() if part is None}, **gone, **parts}
        moved = [name for name, part in now.items() if name not in before or before[name] != part]
        if not moved:
            return
        if len(now) - len(parts) > MAX_GONE:
            now, moved = dict(parts), [name for name in moved if name in parts]
            self.changed = {name: version for name, version in self.changed.items() if name in parts}
            self.born = os.urandom(4).hex()
        self.version += 1
        self.changed.update(dict.fromkeys(moved, self.version))
        self.parts = now
        self._news.clear()


@dataclass(slots=True)
class Rooms:
    """Of one server, by name. A name says all that decides what is seen: what, and for which tenant."""

    linger_s: float = LINGER_S
    open: dict[str, Room] = field(default_factory=dict[str, Room])

    async def visit(
        self, name: str, looks: Looks, after: str = "", *, pace: Pace | None = None, silence_s: float | None = None
    ) -> AsyncGenerator[News | None]:
        """As `Room.visit`; the first who comes has it opened, and it is closed after the last."""
        room = self.open.setdefault(name, Room(looks, pace))
        room.visitors += 1
        try:
            async with aclosing(room.visit(after, silence_s=silence_s)) as coming:
                async for news in coming:
                    yield news
        finally:
            room.visitors -= 1
            asyncio.get_running_loop().call_later(self.linger_s, self._close, name, room)

    def _close(self, name: str, room: Room) -> None:
        if room.visitors == 0 and self.open.get(name) is room:
            del self.open[name]
            room.stop()


def _has_seen_all(looking: asyncio.Task[None]) -> bool:
    """What was seen last stays true: there is no more to come."""
    return looking.done() and not looking.cancelled() and looking.exception() is None


def _left_s(wait_s: float | None, since_s: float) -> float | None:
    return None if wait_s is None else max(0.0, since_s + wait_s - time.monotonic())


async def _within(wait_s: float | None, happens: asyncio.Event) -> bool:
    try:
        async with asyncio.timeout(wait_s):
            return await happens.wait()
    except TimeoutError:
        return False
