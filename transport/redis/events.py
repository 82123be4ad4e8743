"""Events of a trace: its stream in one cell."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import cast

from envelope.codec import decode
from envelope.errors import EnvelopeError
from envelope.logs import get_logger
from envelope.messages import TaskProgress, TaskResult

from ..base import Entry
from ..concerning import concerns
from ..errors import no_trace
from ..snapshot import snapshot
from . import records
from .cell import Cell
from .client import MAX_BLOCK_S
from .results import ends, result_from

# One read's worth: at the usual 300 bytes an entry, 150 KiB.
PAGE = 500
# More tasks than any trace has that a person reads; a snapshot of them is some megabytes.
SNAPSHOT_TASKS = 10_000

# Of a trace: its root, its first entry, when its root ended, and its last entry when it last had no live task.
FOLLOWED = ("root", "first", "ended", "last")

Page = list[tuple[bytes, list[bytes]]]  # id, [field, value]: all entries of ours have one

_log = get_logger("events")


async def follow(cell: Cell, trace_id: str, after: str, *, wait: bool = True, about: str = "") -> AsyncIterator[Entry]:
    stream, trace = cell.keys.name("events", trace_id), cell.keys.name("trace", trace_id)
    root, first, ended, last = await cell.client.call("HMGET", trace, *FOLLOWED)
    if root is None:
        raise no_trace(trace_id)
    while True:
        page = await _read(cell, stream, after, block=wait and not ended)
        if (gone := await _gone(cell, stream, first, last, page)) and _order(gone) > _order(after):
            for entry in await _snapshot(cell, trace_id, after, gone, about):
                yield entry
            after = gone
            continue
        names = [about.encode(), root] if about else [b""]
        for entry_id, fields in page:
            after = entry_id.decode()
            # ids stand in entries as they are: to look for them takes a tenth of what reading takes
            if not any(name in fields[-1] for name in names):
                continue
            message = _readable(fields[-1], after)
            if message and concerns(message, about):
                yield Entry(after, message)
            if isinstance(message, TaskResult) and message.task_id == root.decode():
                return
        if not page:
            if ended or not wait:
                return
            root, first, ended, last = await cell.client.call("HMGET", trace, *FOLLOWED)
            if root is None:  # past its retention, or a failover forgot it
                raise no_trace(trace_id)


def _readable(data: bytes, entry_id: str) -> TaskProgress | TaskResult | None:
    """What cannot be read is one entry that is not shown, never the end of the stream."""
    try:
        message = decode(data)
    except EnvelopeError as error:
        _log.warning("entry_not_readable", entry=entry_id, error=error.message)
        return None
    return message if isinstance(message, TaskProgress | TaskResult) else None


async def _gone(cell: Cell, stream: str, first: bytes | None, last: bytes | None, page: Page) -> str | None:
    """The id up to which entries are no longer kept; None when all are.

    Looked at after the read: then none can be missing in it. On a full server all entries of an ended trace go, up to
    its `last` one.
    """
    oldest = await _oldest(cell, stream) if page or last else None
    if oldest is None and page:  # they went after they were read
        oldest = page[0][0].decode()
    if oldest is None:
        return last.decode() if last else None
    return None if first is None or oldest == first.decode() else _before(oldest)


def _order(entry_id: str) -> tuple[int, int]:
    milliseconds, _, number = entry_id.partition("-")
    return int(milliseconds), int(number or 0)


def _before(entry_id: str) -> str:
    milliseconds, number = _order(entry_id)
    return f"{milliseconds}-{number - 1}" if number else f"{milliseconds - 1}-{2**64 - 1}"


async def _oldest(cell: Cell, stream: str) -> str | None:
    entries: Page = await cell.client.call("XRANGE", stream, "-", "+", "COUNT", 1)
    return entries[0][0].decode() if entries else None


async def _snapshot(cell: Cell, trace_id: str, after: str, before_first: str, about: str) -> list[Entry]:
    tasks = await records.tasks(cell, trace_id, SNAPSHOT_TASKS)
    ended = {
        end.task_id: result_from(end.task_id, end.result)
        for end in await ends(cell, [task.task_id for task in tasks])
        if end.result
    }
    now_ms = await records.now_ms(cell)
    return snapshot(tasks, ended, now_ms=now_ms, after=after, before_first=before_first, about=about)


async def _read(cell: Cell, stream: str, after: str, *, block: bool) -> Page:
    if block:
        pages = await cell.client.block(
            "XREAD", "COUNT", PAGE, "BLOCK", int(MAX_BLOCK_S * 1000), "STREAMS", stream, after, repeatable=True
        )
    else:
        pages = await cell.client.call("XREAD", "COUNT", PAGE, "STREAMS", stream, after)
    return cast(Page, pages[0][1]) if pages else []
