"""For operators: dead letters, and what tenants get."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from envelope.logs import get_logger

from ..base import Allotment, DeadLetter
from ..errors import no_trace
from ..money import Ledger
from .cell import Cell

# Dead letters read in one call, some milliseconds of the server's time: a tenant's few may be among very many.
LETTERS_AT_ONCE = 1_000

_log = get_logger("operators")


async def dead_letters(cell: Cell, tenant: str | None, limit: int) -> list[DeadLetter]:
    found: list[DeadLetter] = []
    last, count = "+", max(1, limit) if tenant is None else LETTERS_AT_ONCE
    while True:
        entries: list[tuple[bytes, list[bytes]]] = await cell.client.call(
            "XREVRANGE", cell.keys.name("dead"), last, "-", "COUNT", count
        )
        letters = (_readable(entry_id.decode(), fields) for entry_id, fields in entries)
        found += [letter for letter in letters if letter and tenant in (None, letter.tenant)]
        if tenant is None or len(entries) < count or len(found) >= limit:
            return found[:limit]
        last = f"({entries[-1][0].decode()}"


async def dead_letter_count(cell: Cell) -> int:
    """Spoilt ones are letters, too: somebody has to look at them."""
    return await cell.client.call("XLEN", cell.keys.name("dead"))


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
        tenant=text.get("tenant", ""),
        at_ms=int(entry_id.partition("-")[0]),
    )


async def purge(cell: Cell, task_ids: Iterable[str], by: str) -> int:
    wanted, purged, after = list(task_ids), 0, "-"
    while after:
        count, page = await cell.run("purge", repeatable=True, tasks=wanted, by=by, after=after, count=LETTERS_AT_ONCE)
        purged, after = purged + count, page.decode()
    return purged


async def allot(cell: Cell, tenant: str, allotment: Allotment, by: str) -> None:
    given = {"weight": str(allotment.weight), "cap": allotment.max_running}
    bounds = {"queued": allotment.max_queued, "tree": allotment.max_tree}
    await cell.run("allot", repeatable=True, tenant=tenant, **given, **bounds, by=by)


async def raise_cap(cell: Cell, trace_id: str, cap_microusd: int, by: str) -> Ledger:
    """The money as it is then."""
    found: list[int] = await cell.run("raise", repeatable=True, trace=trace_id, cap=cap_microusd, by=by)
    if not found:
        raise no_trace(trace_id)
    spent, cap, reserved = found
    return Ledger(spent, cap if cap >= 0 else None, reserved)


async def ledger(cell: Cell, trace_id: str) -> Ledger:
    """Without a script, as everything that only reads."""
    found = await cell.client.call("HMGET", cell.keys.name("trace", trace_id), "root", "spent", "cap", "reserved")
    root, *money = found
    if root is None:
        raise no_trace(trace_id)
    return _ledger(*money)


async def allotments(cell: Cell) -> Mapping[str, Allotment]:
    found: list[bytes] = await cell.client.call("HGETALL", cell.keys.name("tenants"))
    pairs = zip(found[::2], found[1::2], strict=True)
    rows = {name.decode(errors="replace"): row.decode(errors="replace").split(" ") for name, row in pairs}
    return {name: given for name, row in rows.items() if (given := _allotment(row))}


def _allotment(row: Sequence[str]) -> Allotment | None:
    """None for what somebody has spoilt."""
    try:
        weight, *bounds = row
        return Allotment(float(weight), *(int(value) if value else None for value in bounds))
    except (ValueError, TypeError):
        return None


async def fund(cell: Cell, tenant: str, cap_microusd: int | None, by: str, only_lower: bool) -> Ledger:
    told = {"tenant": tenant, "cap": cap_microusd, "by": by, "only_lower": only_lower}
    spent, cap, reserved, woken = await cell.run("fund", repeatable=True, **told)
    if woken:
        _log.info("tenant_funded", tenant=tenant, tasks_that_go_on=woken)
    return Ledger(spent, cap if cap >= 0 else None, reserved)


async def funds(cell: Cell, tenant: str) -> Ledger:
    return _ledger(*await cell.client.call("HMGET", cell.keys.name("money", tenant), "spent", "cap", "reserved"))


def _ledger(spent: bytes | None, cap: bytes | None, reserved: bytes | None) -> Ledger:
    return Ledger(_amount(spent) or 0, _amount(cap), _amount(reserved) or 0)


def _amount(number: bytes | None) -> int | None:
    """None for what somebody has spoilt, as the scripts read it."""
    try:
        return None if number is None else int(number)
    except ValueError:
        return None
