"""The audit log on Redis: a stream in each cell, whose entries have their number for an id."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import asdict

from envelope.signature import Keyring

from .. import bounds
from ..audit import AuditEntry, Chain, Decision, End, Seal, details_of, sealed
from . import records
from .cell import Cell
from .cells import Cells

# About half a megabyte.
PAGE = 1_000

Row = tuple[bytes, Sequence[bytes]]


class RedisAudit:
    def __init__(self, cells: Cells, keyring: Keyring) -> None:
        self._cells = cells
        self._keyring = keyring

    async def note(self, decision: Decision) -> None:
        """What belongs to no task stands in the first cell."""
        await self._cells.first.run(
            "note",
            repeatable=True,
            once=[uuid.uuid4().hex, 1],
            actor=bounds.reason(decision.actor),
            action=decision.action,
            subject=bounds.reason(decision.subject),
            tenant=decision.tenant,
            details=details_of(decision),
        )

    async def latest(self, limit: int) -> list[AuditEntry]:
        found = [entry for share in await self._cells.each(lambda cell: _latest(cell, limit)) for entry in share]
        return sorted(found, key=lambda entry: entry.time_ms, reverse=True)[:limit]

    async def chains(self) -> list[Chain]:
        return await self._cells.each(_chain)

    async def seal(self, known: Mapping[int, End]) -> Mapping[int, End]:
        ends = await self._cells.each(lambda cell: self._seal(cell, known.get(cell.keys.cell)))
        return {cell.keys.cell: end for cell, end in zip(self._cells.all, ends, strict=True) if end}

    async def _seal(self, cell: Cell, known: End | None) -> End | None:
        """Of two who seal at once the slower may win: its seal is a minute older then, and as true."""
        old = await _seal_of(cell)
        head = await _head(cell)
        sealed_before = (old.seq, old.hash) if old else None
        if not head[0] or not all([await _holds(cell, end) for end in (known, sealed_before, head) if end]):
            return None
        if sealed_before == head:
            return head
        seal = sealed(self._keyring, cell=cell.keys.cell, head=head, at_ms=await records.now_ms(cell))
        fields = [part for pair in asdict(seal).items() for part in pair]
        await cell.client.call("HSET", cell.keys.name("auditseal"), *fields)
        return head


async def _chain(cell: Cell) -> Chain:
    """Seal, head, entries, in this order: what is added meanwhile comes after the head that was seen."""
    seal = await _seal_of(cell)
    head = await _head(cell)
    entries: list[AuditEntry] = []
    while len(entries) < head[0]:
        rows: list[Row] = await cell.client.call(
            "XRANGE", cell.keys.name("audit"), f"({entries[-1].seq}-0" if entries else "-", "+", "COUNT", PAGE
        )
        if not rows:
            break
        entries += [_entry(cell, row) for row in rows]
    return Chain(cell.keys.cell, tuple(entries[: head[0]]), head, seal)


async def _holds(cell: Cell, end: End) -> bool:
    name = f"{end[0]}-0"
    rows: list[Row] = await cell.client.call("XRANGE", cell.keys.name("audit"), name, name)
    return bool(rows) and _entry(cell, rows[0]).hash == end[1]


async def _latest(cell: Cell, limit: int) -> list[AuditEntry]:
    rows: list[Row] = await cell.client.call("XREVRANGE", cell.keys.name("audit"), "+", "-", "COUNT", limit)
    return [_entry(cell, row) for row in rows]


def _entry(cell: Cell, row: Row) -> AuditEntry:
    fields = dict(zip(row[1][::2], row[1][1::2], strict=False))
    return AuditEntry(cell.keys.cell, fields.get(b"body", b""), fields.get(b"hash", b"").decode(errors="replace"))


async def _head(cell: Cell) -> End:
    seq, hash_ = await cell.client.call("HMGET", cell.keys.name("audithead"), "seq", "hash")
    return int(seq or 0), (hash_ or b"").decode(errors="replace")


async def _seal_of(cell: Cell) -> Seal | None:
    found: list[bytes] = await cell.client.call("HGETALL", cell.keys.name("auditseal"))
    text = {name.decode(): value.decode() for name, value in zip(found[::2], found[1::2], strict=True)}
    if not text:
        return None
    return Seal(cell.keys.cell, int(text["seq"]), text["hash"], int(text["at_ms"]), text["key_id"], text["mac"])
