"""Notices on Redis: what happened is read from the cell's streams, by one mark for the whole fleet."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import cast

from envelope.logs import get_logger

from ..notices import Due, Happening, Kind, News, Notice
from .cell import Cell

# About 20,000 ends of tasks at most, of which each takes a look at its record.
PAGE = 200
# In the order of `notice.lua`.
STREAMS = (Kind.ENDED, Kind.DEAD, Kind.ASKED)
FIELDS = ("hook", "event", "body", "at", "tries", "error")

Page = list[tuple[bytes, list[bytes]]]

_log = get_logger("notices")


class RedisNotices:
    def __init__(self, cell: Cell) -> None:
        self._cell = cell

    async def read(self, *, wait_s: float) -> News:
        found: list[bytes] = await self._cell.run("notice", repeatable=True, what="begin")
        before = tuple(mark.decode() for mark in found)
        names = [self._cell.keys.name(kind) for kind in STREAMS]
        block = ("BLOCK", int(wait_s * 1000), "STREAMS", *names, *before)
        pages: list[tuple[bytes, Page]] | None = await self._cell.client.block(
            "XREAD", "COUNT", PAGE, *block, for_s=wait_s, repeatable=True
        )
        by_name = {name.decode(): page for name, page in pages or ()}
        after = tuple(
            by_name[name][-1][0].decode() if name in by_name else mark for name, mark in zip(names, before, strict=True)
        )
        happenings = [
            each
            for kind, name in zip(STREAMS, names, strict=True)
            for entry_id, fields in by_name.get(name, ())
            for each in _happenings(kind, entry_id.decode(), fields)
        ]
        return News(before, after, tuple(happenings))

    async def take(self, news: News, notices: Sequence[Notice]) -> bool:
        rows = [(one.id, one.hook, one.event, one.body, one.at_ms) for one in notices]
        # repeatable: the second time the mark has moved, and whoever is told "no" reads on behind it
        return bool(await self._run("take", before=news.before, after=news.after, notices=rows))

    async def due(self, *, limit: int, sending_ms: int) -> Due:
        found = await self._run("due", limit=limit, sending_ms=sending_ms)
        next_ms, rows = cast(tuple[int, list[list[bytes | None]]], found)
        notices = [_notice((row[0] or b"").decode(errors="replace"), row[1:]) for row in rows]
        return Due(tuple(filter(None, notices)), None if next_ms < 0 else next_ms)

    async def sent(self, notice: Notice) -> None:
        await self._run("sent", id=notice.id)

    async def failed(self, notice: Notice, why: str, *, again_in_ms: int | None) -> None:
        await self._run("failed", id=notice.id, tries=str(notice.tries), why=why, again_ms=again_in_ms)

    async def waiting(self, limit: int) -> list[Notice]:
        return await self._named(await self._cell.client.call("ZRANGE", self._key("noticedue"), 0, limit - 1))

    async def given_up(self, limit: int) -> list[Notice]:
        ids: list[bytes] = await self._cell.client.call("ZRANGE", self._key("noticedead"), -limit, -1)
        return await self._named(list(reversed(ids)))

    async def retry(self, ids: Iterable[str]) -> int:
        return await self._run("retry", ids=list(ids))

    async def _named(self, ids: Sequence[bytes]) -> list[Notice]:
        """Those that are still kept."""
        names = [one.decode(errors="replace") for one in ids]
        rows = await self._cell.client.read_many([("HMGET", self._key("notice", name), *FIELDS) for name in names])
        found = [_notice(name, row) for name, row in zip(names, rows, strict=True) if row[0] is not None]
        return [notice for notice in found if notice]

    async def _run(self, what: str, **values: object) -> int:
        return await self._cell.run("notice", repeatable=True, what=what, **values)

    def _key(self, *parts: str) -> str:
        return self._cell.keys.name(*parts)


def _notice(name: str, row: Sequence[bytes | None]) -> Notice | None:
    """None for what somebody has spoilt."""
    hook, event, body, at, tries, error = (value.decode(errors="replace") if value else "" for value in row)
    try:
        return Notice(name, hook, event, body, int(at or 0), int(tries or 0), error)
    except ValueError:
        return None


def _happenings(kind: Kind, entry_id: str, fields: Sequence[bytes]) -> list[Happening]:
    words = [word.decode(errors="replace") for word in fields]
    text = dict(zip(words[::2], words[1::2], strict=True))
    at_ms = int(entry_id.partition("-")[0])
    try:
        return _READ[kind](text, at_ms)
    except KeyError as error:  # spoilt: the others are told
        _log.warning("happening_not_readable", stream=kind, entry=entry_id, error=str(error))
        return []


def _ended(text: Mapping[str, str], at_ms: int) -> list[Happening]:
    return [Happening(Kind.ENDED, task_id, at_ms) for task_id in text["ids"].split()]


def _dead(text: Mapping[str, str], at_ms: int) -> list[Happening]:
    return [Happening(Kind.DEAD, text["task"], at_ms, code=text["code"], why=text["why"])]


def _asked(text: Mapping[str, str], at_ms: int) -> list[Happening]:
    return [Happening(Kind.ASKED, text["task"], at_ms, asks=tuple(text["asks"].split()))]


_READ = {Kind.ENDED: _ended, Kind.DEAD: _dead, Kind.ASKED: _asked}
