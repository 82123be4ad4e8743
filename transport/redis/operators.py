"""For operators: dead letters, and what tenants get."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from envelope.logs import get_logger

from ..base import Allotment, DeadLetter, Ledger
from ..errors import NotFound
from ..raising import ASK_FOR_MORE
from .cell import Cell
from .sessions import answers_ms

_log = get_logger("operators")


async def dead_letters(cell: Cell, limit: int) -> list[DeadLetter]:
    entries: list[tuple[bytes, list[bytes]]] = await cell.client.call(
        "XREVRANGE", cell.keys.name("dead"), "+", "-", "COUNT", max(1, limit)
    )
    letters = [_readable(entry_id.decode(), fields) for entry_id, fields in entries]
    return [letter for letter in letters if letter]


def _readable(entry_id: str, fields: Sequence[bytes]) -> DeadLetter | None:
    try:
        return _letter(entry_id, fields)
    except (ValueError, KeyError) as error:  # spoilt: the others are shown
        _log.warning("letter_not_readable", entry=entry_id, error=str(error))
        return None


def _letter(entry_id: str, fields: Sequence[bytes]) -> DeadLetter:
    text = {name.decode(): value.decode() for name, value in zip(fields[::2], fields[1::2], strict=True)}
    return DeadLetter(
        task_id=text["task"],
        trace_id=text["trace"],
        pool=text["pool"],
        code=text["code"],
        why=text["why"],
        worker=text["worker"],
        at_ms=int(entry_id.partition("-")[0]),
    )


async def purge(cell: Cell, task_ids: Iterable[str], by: str) -> int:
    return await cell.run("purge", repeatable=True, tasks=list(task_ids), by=by)


async def allot(cell: Cell, tenant: str, allotment: Allotment, by: str) -> None:
    weight, cap = str(allotment.weight), allotment.max_running
    await cell.run("allot", repeatable=True, tenant=tenant, weight=weight, cap=cap, by=by)


async def raise_cap(cell: Cell, trace_id: str, cap_microusd: int, by: str) -> Ledger:
    """The money as it is then."""
    found: list[int] = await cell.run(
        "raise",
        repeatable=True,
        trace=trace_id,
        cap=cap_microusd,
        ask=ASK_FOR_MORE,
        by=by,
        answers_ms=answers_ms(cell),
    )
    if not found:
        raise NotFound(f"there is no trace {trace_id}")
    spent, cap, reserved = found
    return Ledger(spent, cap if cap >= 0 else None, reserved)


async def allotments(cell: Cell) -> Mapping[str, Allotment]:
    found: list[bytes] = await cell.client.call("HGETALL", cell.keys.name("tenants"))
    rows = {name.decode(): row.decode().split(" ") for name, row in zip(found[::2], found[1::2], strict=True)}
    return {name: Allotment(float(weight), int(cap) if cap else None) for name, (weight, cap) in rows.items()}
