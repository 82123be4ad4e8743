"""What many people watch is looked at once.

A room is a picture that changes: parts of a page by their ids. Somebody looks for it while anybody is inside. Each
visitor gets the parts that have changed since what they saw last: a slow one skips what came between, one who comes
back is told only what they missed.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field

# A whole picture, again and again.
Looks = Callable[[], AsyncGenerator[Mapping[str, str]]]
# Somebody who reloads the page finds what was read for them still there.
LINGER_S = 10.0


@dataclass(frozen=True, slots=True)
class News:
    """Parts that have changed; None for one that is gone. `id` is what a visitor comes back with."""

    id: str
    parts: Mapping[str, str | None]


@dataclass(eq=False, slots=True)
class Room:
    looks: Looks
    parts: Mapping[str, str | None] = field(default_factory=dict[str, "str | None"])
    changed: dict[str, int] = field(default_factory=dict[str, int])  # part → the version that changed it
    version: int = 0
    visitors: int = 0
    born: str = field(default_factory=lambda: os.urandom(4).hex())
    _moved: asyncio.Event = field(default_factory=asyncio.Event)
    _looking: asyncio.Task[None] | None = None

    async def visit(self, after: str = "") -> AsyncGenerator[News]:
        """What has changed since `after`, and then what changes, until the looks end."""
        seen = self._version_of(after)
        looking = self._look()
        while True:
            moved = self._moved
            if self.version > seen:
                news = {name: self.parts[name] for name, changed in self.changed.items() if changed > seen}
                seen = self.version
                yield News(f"{self.born}-{seen}", news)
                continue
            if looking.done():
                looking.result()  # what went wrong is the visitor's to hear: their page comes again
                return
            waits = asyncio.ensure_future(moved.wait())
            try:
                await asyncio.wait({waits, looking}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                waits.cancel()

    def stop(self) -> None:
        if self._looking is not None:
            self._looking.cancel()

    def _version_of(self, after: str) -> int:
        """0, which is everything, for who comes from an earlier room."""
        born, _, version = after.partition("-")
        return int(version) if born == self.born and version.isdecimal() else 0

    def _look(self) -> asyncio.Task[None]:
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._keep_looking())
            # what went wrong is the visitors' to hear; where there are none, nobody's
            self._looking.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
        return self._looking

    async def _keep_looking(self) -> None:
        async with aclosing(self.looks()) as looks:
            async for parts in looks:
                self._put(parts)

    def _put(self, parts: Mapping[str, str]) -> None:
        before = self.parts
        gone = {name: None for name, part in before.items() if part is not None and name not in parts}
        now = {**{name: part for name, part in before.items() if part is None}, **gone, **parts}
        moved = [name for name, part in now.items() if name not in before or before[name] != part]
        if not moved:
            return
        self.version += 1
        self.changed.update(dict.fromkeys(moved, self.version))
        self.parts = now
        self._moved.set()
        self._moved = asyncio.Event()


@dataclass(slots=True)
class Rooms:
    """Of one server, by name. A name says all that decides what is seen: what, and for which tenant."""

    linger_s: float = LINGER_S
    open: dict[str, Room] = field(default_factory=dict[str, Room])

    async def visit(self, name: str, looks: Looks, after: str = "") -> AsyncGenerator[News]:
        """As `Room.visit`; the first who comes has it opened, and it is closed after the last."""
        room = self.open.setdefault(name, Room(looks))
        room.visitors += 1
        try:
            async with aclosing(room.visit(after)) as coming:
                async for news in coming:
                    yield news
        finally:
            room.visitors -= 1
            asyncio.get_running_loop().call_later(self.linger_s, self._close, name, room)

    def _close(self, name: str, room: Room) -> None:
        if room.visitors == 0 and self.open.get(name) is room:
            del self.open[name]
            room.stop()
