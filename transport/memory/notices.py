"""Notices in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace

from ..notices import Due, Happening, News, Notice
from .fleet import Fleet


class MemoryNotices:
    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._mark: int | None = None
        self._known: dict[str, Notice] = {}
        self._due: dict[str, int] = {}
        self._dead: dict[str, int] = {}

    async def read(self, *, wait_s: float) -> News:
        happened = self._fleet.happened
        mark = self._mark = len(happened) if self._mark is None else self._mark
        with suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                while len(happened) == mark:
                    await self._fleet.pulse.wait()
        fresh: tuple[Happening, ...] = tuple(happened[mark:])
        return News((str(mark),), (str(mark + len(fresh)),), fresh)

    async def take(self, news: News, notices: Sequence[Notice]) -> bool:
        if news.before != (str(self._mark),):
            return False
        for notice in notices:
            if notice.id not in self._known:
                self._known[notice.id] = notice
                self._due[notice.id] = self._fleet.now()
        self._mark = int(news.after[0])
        return True

    async def due(self, *, limit: int, sending_ms: int) -> Due:
        now = self._fleet.now()
        ids = [name for name, at_ms in sorted(self._due.items(), key=lambda each: each[1]) if at_ms <= now][:limit]
        for name in ids:
            self._known[name] = replace(self._known[name], tries=self._known[name].tries + 1)
            self._due[name] = now + sending_ms
        next_ms = max(0, min(self._due.values()) - now) if self._due else None
        return Due(tuple(self._known[name] for name in ids), next_ms)

    async def sent(self, notice: Notice) -> None:
        self._due.pop(notice.id, None)
        self._dead.pop(notice.id, None)

    async def failed(self, notice: Notice, why: str, *, again_in_ms: int | None) -> None:
        if self._known[notice.id].tries != notice.tries or notice.id not in self._due:
            return
        self._known[notice.id] = replace(self._known[notice.id], error=why)
        if again_in_ms is None:
            self._dead[notice.id] = self._due.pop(notice.id)
        else:
            self._due[notice.id] = self._fleet.now() + again_in_ms

    async def waiting(self, limit: int) -> list[Notice]:
        return [self._known[name] for name in sorted(self._due, key=lambda name: self._due[name])][:limit]

    async def given_up(self, limit: int) -> list[Notice]:
        return [self._known[name] for name in reversed(self._dead)][:limit]

    async def retry(self, ids: Iterable[str]) -> int:
        again = [name for name in ids if self._dead.pop(name, None) is not None]
        for name in again:
            self._known[name] = replace(self._known[name], tries=0)
            self._due[name] = self._fleet.now()
        return len(again)
