"""What is asked of a fleet, put together from the answers of its cells."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence

from envelope.logs import get_logger
from envelope.messages import TaskResult

from ..base import DeadLetter, PoolStats, Roots, TaskRecord
from ..errors import Unreachable
from ..listing import cursor_of, place_of
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
    """Latest roots are sorted by the clocks of their cells' servers."""
    if trace_id is not None:
        return await records.tasks(cells.of_trace(trace_id), trace_id, limit)
    if len(cells.all) == 1:
        return await records.tasks(cells.first, None, limit)
    found = [record for share in await cells.each(lambda cell: records.tasks(cell, None, limit)) for record in share]
    return sorted(found, key=lambda record: record.accepted_at_ms, reverse=True)[:limit]


async def roots(cells: Cells, tenant: str | None, after: str, limit: int) -> Roots:
    """By the clocks of the cells' servers; a place says in which order two cells' roots come."""
    begin = place_of(after)
    shares = await cells.each(lambda cell: records.places(cell, tenant, begin, limit))
    homes = {place: cell for cell, share in zip(cells.all, shares, strict=True) for place in share}
    page = sorted(homes, reverse=True)[:limit]

    async def of_cell(cell: Cell) -> list[TaskRecord]:
        return await records.records_of(cell, [place[1] for place in page if homes[place] is cell])

    found = {record.task_id: record for share in await cells.each(of_cell) for record in share}
    kept = tuple(found[task_id] for _, task_id in page if task_id in found)
    return Roots(kept, cursor_of(page[-1]) if len(page) == limit else "")


async def dead_letters(cells: Cells, limit: int) -> list[DeadLetter]:
    found = [letter for share in await cells.each(lambda cell: operators.dead_letters(cell, limit)) for letter in share]
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
        )
        for pool, shares in zip(pools, zip(*rows, strict=True), strict=True)
    ]


async def counters(cells: Cells) -> dict[str, int]:
    total: Counter[str] = Counter()
    for share in await cells.each(records.counters):
        total.update(share)
    return dict(total)


async def fund(cells: Cells, tenant: str, cap_microusd: int | None, by: str) -> Ledger:
    """Equal parts, so that all cells together allow no more than the cap."""
    part = None if cap_microusd is None else cap_microusd // len(cells.all)
    return _sum(await cells.each(lambda cell: operators.fund(cell, tenant, part, by)))


async def funds(cells: Cells, tenant: str) -> Ledger:
    return _sum(await cells.each(lambda cell: operators.funds(cell, tenant)))


def _sum(shares: Sequence[Ledger]) -> Ledger:
    caps = [share.cap_microusd for share in shares if share.cap_microusd is not None]
    return Ledger(
        sum(share.spent_microusd for share in shares),
        sum(caps) if len(caps) == len(shares) else None,
        sum(share.reserved_microusd for share in shares),
    )
