"""The audit log on Redis: a stream in each cell, whose entries have their number for an id."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from envelope.signature import Keyring

from .. import bounds
from ..audit import NO_HEAD, AuditEntry, Chain, Decision, End, Seal, details_of, may_begin_at, seal_fault, sealed
from ..errors import TransportError
from . import records
from .cell import Cell
from .cells import Cells

# About half a megabyte.
PAGE = 1_000
MAX_DIGITS = 18  # of an entry's number: more are no id of a stream

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
        first, is_full = await _begin(cell)
        if head[0] <= 0 or not may_begin_at(first, is_full=is_full, seal=old, keyring=self._keyring):
            return None
        if known and known[0] < first and old and not seal_fault(old, self._keyring):
            known = None  # it was dropped since; whoever sealed after it has seen it
        if not all([await _holds(cell, end) for end in (known, sealed_before, head) if end]):
            return None
        if sealed_before == head:
            return head
        at_ms = await records.now_ms(cell)
        seal = sealed(self._keyring, cell=cell.keys.cell, head=head, at_ms=at_ms, first=first)
        fields = [part for pair in asdict(seal).items() for part in pair]
        await cell.client.call("HSET", cell.keys.name("auditseal"), *fields)
        return head


async def _chain(cell: Cell) -> Chain:
    """Seal, head, entries, in this order: what is added meanwhile comes after the head that was seen."""
    seal = await _seal_of(cell)
    head = await _head(cell)
    name, after, last = cell.keys.name("audit"), "-", b""
    entries: list[AuditEntry] = []
    while True:
        rows: list[Row] | None = await _unless_spoilt(cell, "XRANGE", "audit", after, "+", "COUNT", PAGE)
        if not rows:
            break
        entries += [_entry(cell, row) for row in rows]
        # Entries are added while this reads. It stops at the one that was last after the first page.
        last = last or (await cell.client.call("XREVRANGE", name, "+", "-", "COUNT", 1))[0][0]
        if last in {row[0] for row in rows}:
            break
        after = f"({rows[-1][0].decode()}"
    is_full = len(entries) >= cell.limits.audit_entries
    begun = entries[0].seq if entries else 1
    if head != NO_HEAD:
        entries = entries[: max(0, head[0] - begun + 1)]
    return Chain(cell.keys.cell, tuple(entries), head, seal, is_full)


async def _begin(cell: Cell) -> tuple[int, bool]:
    """The number of the first entry, and whether there are as many as are kept; counted after it was looked at."""
    rows: list[Row] | None = await _unless_spoilt(cell, "XRANGE", "audit", "-", "+", "COUNT", 1)
    length: int = await _unless_spoilt(cell, "XLEN", "audit") or 0
    return (_entry(cell, rows[0]).seq if rows else 1), length >= cell.limits.audit_entries


async def _holds(cell: Cell, end: End) -> bool:
    name = f"{end[0]}-0"
    rows: list[Row] | None = await _unless_spoilt(cell, "XRANGE", "audit", name, name)
    return bool(rows) and _entry(cell, rows[0]).hash == end[1]


async def _latest(cell: Cell, limit: int) -> list[AuditEntry]:
    rows: list[Row] | None = await _unless_spoilt(cell, "XREVRANGE", "audit", "+", "-", "COUNT", limit)
    return [_entry(cell, row) for row in rows or ()]


def _entry(cell: Cell, row: Row) -> AuditEntry:
    fields = dict(zip(row[1][::2], row[1][1::2], strict=False))
    return AuditEntry(cell.keys.cell, fields.get(b"body", b""), fields.get(b"hash", b"").decode(errors="replace"))


async def _head(cell: Cell) -> End:
    found = await _unless_spoilt(cell, "HMGET", "audithead", "seq", "hash")
    if found is None:
        return NO_HEAD
    seq, hash_ = found
    if seq is not None and not (seq.isdigit() and len(seq) <= MAX_DIGITS):
        return NO_HEAD
    return int(seq or 0), (hash_ or b"").decode(errors="replace")


async def _seal_of(cell: Cell) -> Seal | None:
    found: list[bytes] | None = await _unless_spoilt(cell, "HGETALL", "auditseal")
    if found == []:
        return None
    try:
        text = (
            {name.decode(): value.decode() for name, value in zip(found[::2], found[1::2], strict=True)}
            if found
            else {}
        )
        return Seal(
            cell.keys.cell,
            int(text["seq"][:MAX_DIGITS]),
            text["hash"],
            int(text["at_ms"]),
            text["key_id"],
            text["mac"],
            int(text.get("first", 1)),
        )
    except (ValueError, KeyError):
        return Seal(cell.keys.cell, 0, "", 0, "", "")  # one that nobody has signed


async def _unless_spoilt(cell: Cell, command: str, name: str, *arguments: str | int) -> Any:
    """None where somebody has put something else in the key's place."""
    try:
        return await cell.client.call(command, cell.keys.name(name), *arguments)
    except TransportError as error:
        if "WRONGTYPE" not in str(error):
            raise
        return None
