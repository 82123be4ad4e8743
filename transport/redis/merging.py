"""Answers of a whole fleet, put together from those of its cells."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence

from envelope.lifecycle import TERMINAL, State
from envelope.logs import get_logger
from envelope.messages import TaskResult

from ..base import DeadLetter, Page, PoolStats, TaskRecord
from ..errors import Unreachable
from ..listing import Place, cursor_of, place_of
from ..money import Ledger
from . import operators, records
from .cell import Cell
from .cells import Cells
from .results import Results

_log = get_logger("redis")


async def results(
    cells: Cells, results_in: Mapping[Cell, Results], task_ids: Iterable[str]
) -> AsyncIterator[TaskResult]:
    """In the order in which they come in from the cells, each of which tells its own in order.

    A cell that cannot be reached is asked again for as long as another one can be.
    """
    wanted = {cell: dict.fromkeys(share) for cell, share in (await cells.of_tasks(task_ids)).items()}
    if len(wanted) == 1:
        ((cell, share),) = wanted.items()
        async for result in results_in[cell].of(share):
            yield result
        return
    streams = {cell: results_in[cell].of(share) for cell, share in wanted.items()}
    coming = {_next(stream): cell for cell, stream in streams.items()}
    away: set[Cell] = set()
    try:
        while coming:
            done, _ = await asyncio.wait(coming, return_when=asyncio.FIRST_COMPLETED)
            for future in done:
                cell = coming.pop(future)
                try:
                    result = future.result()
                except Unreachable as error:
                    away.add(cell)
                    if away.issuperset(coming.values()):
                        raise
                    _log.warning("results_wait_for_cell", cell=cell.keys.cell, error=error.message)
                    streams[cell] = results_in[cell].of(wanted[cell])
                    coming[_next(streams[cell])] = cell
                    continue
                if result:
                    away.discard(cell)
                    del wanted[cell][result.task_id]
                    coming[_next(streams[cell])] = cell
                    yield result
    finally:
        for future in coming:
            future.cancel()


def _next(stream: AsyncIterator[TaskResult]) -> asyncio.Future[TaskResult | None]:
    return asyncio.ensure_future(anext(stream, None))


async def tasks(cells: Cells, trace_id: str | None, limit: int) -> list[TaskRecord]:
    if trace_id is not None:
        return await records.tasks(cells.of_trace(trace_id), trace_id, limit)
    return list((await roots(cells, None, "", limit)).records) if limit > 0 else []


async def roots(cells: Cells, tenant: str | None, after: str, limit: int) -> Page:
    return await _page(cells, ("index",), tenant, after, limit)


async def live_roots(cells: Cells, tenant: str | None, shards: bool | None, after: str, limit: int) -> Page:
    names = {None: ("live", "shards"), True: ("shards",), False: ("live",)}[shards]
    page = await _page(cells, names, tenant, after, limit)
    alive = tuple(record for record in page.records if record.state not in TERMINAL)  # some have just ended
    return Page(alive, page.cursor, await _total(cells, names, tenant))


async def asking(cells: Cells, tenant: str | None, trace_id: str | None, after: str, limit: int) -> Page:
    asked = None if trace_id is None else (cells.of_trace(trace_id),)
    page = await _page(cells, ("asking",), tenant, after, limit, latest_first=False, asked=asked)
    waiting = [record for record in page.records if record.state is State.WAITING]  # some have just gone on
    if trace_id is not None:
        return Page(tuple(record for record in waiting if record.trace_id == trace_id), page.cursor)
    return Page(tuple(waiting), page.cursor, await _total(cells, ("asking",), tenant))


async def _page(
    cells: Cells,
    names: Sequence[str],
    tenant: str | None,
    after: str,
    limit: int,
    *,
    latest_first: bool = True,
    asked: Sequence[Cell] | None = None,
) -> Page:
    """Of all these listings together, by the clocks of the cells' servers; places say how tasks of two cells stand."""
    begin = place_of(after)

    async def places(cell: Cell) -> list[Place]:
        found = [await records.places(cell, name, tenant, begin, limit, latest_first=latest_first) for name in names]
        return [place for each in found for place in each]

    shares = await cells.each(places, among=asked)
    homes = {place: cell for cell, share in zip(asked or cells.all, shares, strict=True) for place in share}
    page = sorted(homes, reverse=latest_first)[:limit]

    async def of_cell(cell: Cell) -> list[TaskRecord]:
        return await records.records_of(cell, [place[1] for place in page if homes[place] is cell])

    found = {record.task_id: record for share in await cells.each(of_cell, among=asked) for record in share}
    kept = tuple(found[task_id] for _, task_id in page if task_id in found)
    return Page(kept, cursor_of(page[-1]) if page and len(page) == limit else "")


async def _total(cells: Cells, names: Sequence[str], tenant: str | None) -> int:
    shares = [await cells.each(lambda cell, name=name: records.listed(cell, name, tenant)) for name in names]
    return sum(map(sum, shares))


async def dead_letters(cells: Cells, tenant: str | None, limit: int) -> list[DeadLetter]:
    shares = await cells.each(lambda cell: operators.dead_letters(cell, tenant, limit))
    found = [letter for share in shares for letter in share]
    # each cell's are in order already, and what happened in one millisecond stays so
    return sorted(found, key=lambda letter: letter.at_ms, reverse=True)[:limit]


async def stats(cells: Cells, pools: Sequence[str]) -> list[PoolStats]:
    """Of the whole fleet: sums over its cells, and the oldest of all that wait."""
    rows = await cells.each(lambda cell: records.stats(cell, pools))
    return [
        PoolStats(
            pool,
            sum(share.ready for share in shares),
            sum(share.running for share in shares),
            max(share.oldest_ready_age_s for share in shares),
            sum(share.parked for share in shares),
        )
        for pool, shares in zip(pools, zip(*rows, strict=True), strict=True)
    ]


async def counters(cells: Cells) -> dict[str, int]:
    total: Counter[str] = Counter()
    for share in await cells.each(records.counters):
        total.update(share)
    return dict(total)


async def fund(cells: Cells, tenant: str, cap_microusd: int | None, by: str, only_lower: bool) -> Ledger:
    """Equal parts, so that all cells together allow no more than the cap."""
    part = None if cap_microusd is None else cap_microusd // len(cells.all)
    return _sum(await cells.each(lambda cell: operators.fund(cell, tenant, part, by, only_lower)))


async def funds(cells: Cells, tenant: str) -> Ledger:
    return _sum(await cells.each(lambda cell: operators.funds(cell, tenant)))


def _sum(shares: Sequence[Ledger]) -> Ledger:
    caps = [share.cap_microusd for share in shares if share.cap_microusd is not None]
    return Ledger(
        sum(share.spent_microusd for share in shares),
        sum(caps) if len(caps) == len(shares) else None,
        sum(share.reserved_microusd for share in shares),
    )
