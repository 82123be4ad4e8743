"""What happened: a trace's stream, and the ends of many tasks over one connection."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import cast

from envelope.codec import decode, decode_result
from envelope.messages import TaskProgress, TaskResult

from ..base import Entry
from ..errors import NotFound
from .cell import Cell
from .client import MAX_BLOCK_S
from .records import no_task

# One read's worth: at the usual 300 bytes an entry, 150 KiB.
PAGE = 500
# The stream of ended tasks is trimmed: who fell too far behind finds the rest by looking, this often.
SWEEP_S = 30.0

Page = list[tuple[bytes, list[bytes]]]  # id, [field, value]: all entries of ours have one


async def follow(cell: Cell, trace_id: str, after: str) -> AsyncIterator[Entry]:
    stream, trace = cell.keys.name("events", trace_id), cell.keys.name("trace", trace_id)
    root = await cell.client.call("HGET", trace, "root")
    if root is None:
        raise NotFound(f"there is no trace {trace_id}", hint="traces are kept for 7 days after their end, by default")
    ended = await cell.client.call("HEXISTS", trace, "ended")
    while True:
        page = await _read(cell, stream, after, block=not ended)
        for entry_id, (_, data) in page:
            after = entry_id.decode()
            message = decode(data)
            if isinstance(message, TaskProgress | TaskResult):
                yield Entry(after, message)
            if isinstance(message, TaskResult) and message.task_id == root.decode():
                return
        if not page:
            if ended:
                return
            ended = await cell.client.call("HEXISTS", trace, "ended")


async def results(cell: Cell, task_ids: Iterable[str]) -> AsyncIterator[TaskResult]:
    """First those that ended before, then whatever the cell's stream of ended tasks names."""
    loop = asyncio.get_running_loop()
    wanted = set(task_ids)
    newest = await cell.client.call("XREVRANGE", cell.keys.name("done"), "+", "-", "COUNT", 1)
    last = newest[0][0].decode() if newest else "0"
    found, sweep_at = list(wanted), loop.time() + SWEEP_S
    while True:
        for result in await _ended(cell, found):
            wanted.discard(result.task_id)
            yield result
        if not wanted:
            return
        page = await _read(cell, cell.keys.name("done"), last, block=True)
        last = page[-1][0].decode() if page else last
        found = [task for _, (_, ids) in page for task in ids.decode().split() if task in wanted]
        if loop.time() >= sweep_at:
            found, sweep_at = list(wanted), loop.time() + SWEEP_S


async def _read(cell: Cell, stream: str, after: str, *, block: bool) -> Page:
    if block:
        pages = await cell.client.block(
            "XREAD", "COUNT", PAGE, "BLOCK", int(MAX_BLOCK_S * 1000), "STREAMS", stream, after, repeatable=True
        )
    else:
        pages = await cell.client.call("XREAD", "COUNT", PAGE, "STREAMS", stream, after)
    return cast(Page, pages[0][1]) if pages else []


async def _ended(cell: Cell, task_ids: list[str]) -> list[TaskResult]:
    """The results that are there, in the order in which the tasks ended."""
    rows: list[list[bytes | None]] = []
    for start in range(0, len(task_ids), PAGE):
        names = [cell.keys.name("task", task) for task in task_ids[start : start + PAGE]]
        rows += await cell.client.read_many([("HMGET", name, "state", "finished", "result") for name in names])
    ended: list[tuple[int, bytes]] = []
    for task_id, (state, finished, result) in zip(task_ids, rows, strict=True):
        if state is None:
            raise no_task(task_id)
        if finished and result:
            ended.append((int(finished), result))
    ended.sort(key=lambda pair: pair[0])
    return [decode_result(result) for _, result in ended]
