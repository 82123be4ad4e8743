"""The audit log: who decided what. Entries of a cell form a chain, each holding the hash of the one before.

A decision that changes something in the store is recorded by the very step that changes it. What stands here is for
those who check: a chain can be verified by anybody, and its seal by whoever has the fleet's keys.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Protocol, cast

from envelope.errors import BadSignature
from envelope.redaction import redact_head
from envelope.signature import Keyring

TIMEOUT = "timeout"  # the actor of an ask that nobody answered in time
MAX_TIME_MS = 250_000_000_000_000  # in the year 9892; calendars end soon after
MAX_TOLD_CHARS = 1_000  # of a text in an entry: what was asked and said stands whole in the trace's stream
_SEAL = b"muster audit seal\n"  # nothing else that the fleet's keys sign begins so


@dataclass(frozen=True, slots=True)
class Decision:
    """Something that somebody decided. `details` is one flat map; no secret belongs into it."""

    actor: str  # `cli:ann@desk`, `api:TOKEN`, `console:NAME`, `mcp:TOKEN`, `webhook:NAME`, `timeout`
    action: str
    subject: str
    tenant: str = ""
    details: Mapping[str, str | int] | None = None


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """`body` is the JSON as it was hashed; `cell` says which chain it belongs to."""

    cell: int
    body: bytes
    hash: str

    @property
    def fields(self) -> dict[str, Any]:
        """`seq`, `time_ms`, `actor`, `action`, `subject`, `tenant`, `details`, `prev_hash`; none of a spoilt one."""
        try:
            found = json.loads(self.body)
        except (ValueError, RecursionError):
            return {}
        return cast(dict[str, Any], found) if isinstance(found, dict) else {}

    @property
    def seq(self) -> int:
        return number if isinstance(number := self.fields.get("seq"), int) else 0

    @property
    def time_ms(self) -> int:
        """0 where it is no time."""
        moment = self.fields.get("time_ms")
        return moment if isinstance(moment, int) and 0 <= moment < MAX_TIME_MS else 0


End = tuple[int, str]  # number and hash of an entry
NO_HEAD: End = (-1, "")  # of a chain whose head somebody has spoilt


@dataclass(frozen=True, slots=True)
class Seal:
    """That a chain had this entry at this moment, under a key of the fleet's, which the store does not know.

    `first`: where the chain began then, because older entries had been dropped."""

    cell: int
    seq: int
    hash: str
    at_ms: int
    key_id: str
    mac: str
    first: int = 1


@dataclass(frozen=True, slots=True)
class Chain:
    """One cell's log as it is kept: the `head` is written beside the entries, by the step that appends one.

    `is_full`: it has as many entries as are kept (`Limits.audit_entries`), so that older ones were dropped.
    """

    cell: int
    entries: tuple[AuditEntry, ...]
    head: End
    seal: Seal | None
    is_full: bool = False

    @property
    def first(self) -> int:
        """The number of its first entry."""
        return self.entries[0].seq if self.entries else 1

    def holds(self, end: End) -> bool:
        at = end[0] - self.first
        return 0 <= at < len(self.entries) and self.entries[at].hash == end[1]


@dataclass(frozen=True, slots=True)
class Break:
    """The first thing that is wrong with a chain. `seq`: which entry, or where one is missing."""

    cell: int
    seq: int
    why: str


class AuditLog(Protocol):
    async def note(self, decision: Decision) -> None:
        """Record a decision whose deed is done elsewhere; best before the deed."""
        ...

    async def latest(self, limit: int) -> list[AuditEntry]:
        """Of all cells, the latest first."""
        ...

    async def chains(self) -> list[Chain]:
        """All that there is, by cell."""
        ...

    async def seal(self, known: Mapping[int, End]) -> Mapping[int, End]:
        """Sign the end of each chain that has grown; the ends that stand signed, by cell.

        `known`: ends that whoever asks has seen before. A chain that no longer holds them, or what was signed last, is
        not signed, and is not among the answers: a seal must not cover up what was done to the log.
        """
        ...


def chained(decision: Decision, *, seq: int, time_ms: int, prev_hash: str) -> tuple[bytes, str]:
    """An entry's bytes and their hash, as `scripts/audit.lua` makes them."""
    values = {
        **asdict(decision),
        "details": details_of(decision),
        "seq": seq,
        "time_ms": time_ms,
        "prev_hash": prev_hash,
    }
    body = json.dumps(values, separators=(",", ":")).encode()
    return body, hashlib.sha256(body).hexdigest()


def details_of(decision: Decision) -> dict[str, str | int]:
    """As they may stand in the log. Never empty: to Lua an empty map is a list, too."""
    told_ = {name: told(value) if isinstance(value, str) else value for name, value in (decision.details or {}).items()}
    return told_ or {"what": decision.action}


def told(text: str) -> str:
    """What somebody said, as it may stand in the log."""
    return redact_head(text, MAX_TOLD_CHARS)


def sealed(keyring: Keyring, *, cell: int, head: End, at_ms: int, first: int = 1) -> Seal:
    key_id, mac = keyring.sign(_statement(cell, *head, at_ms, first))
    return Seal(cell, *head, at_ms, key_id, mac.hex(), first)


def may_begin_at(first: int, *, is_full: bool, seal: Seal | None, keyring: Keyring) -> bool:
    """May a chain begin here? Only a full one has dropped older entries. One that was full under a smaller limit has a
    seal that says so."""
    if first == 1 or is_full:
        return True
    return seal is not None and first <= seal.first and not seal_fault(seal, keyring)


def seal_fault(seal: Seal, keyring: Keyring) -> str:
    """Why a seal is not the fleet's; empty for one that is."""
    statement = _statement(seal.cell, seal.seq, seal.hash, seal.at_ms, seal.first)
    try:
        keyring.verify(statement, seal.key_id, bytes.fromhex(seal.mac))
    except (BadSignature, ValueError) as e:
        return str(e)
    return ""


def first_break(chain: Chain, keyring: Keyring) -> Break | None:
    """None for a chain that is whole, ends where its head says, and holds what its seal says."""
    return next((found for found in _breaks(chain, keyring)), None)


def missing_from(chain: Chain, exported: Iterable[AuditEntry]) -> Break | None:
    """The first entry of an earlier export that the chain does not hold as it was. Older ones than it begins with were
    dropped; but the last must be there, for nothing else links the two."""
    kept = {entry.seq: entry for entry in chain.entries}
    mine = [entry for entry in exported if entry.cell == chain.cell]
    for entry in mine:
        if entry.seq < chain.first and entry is not mine[-1]:
            continue
        if kept.get(entry.seq) != entry:
            why = "was exported otherwise" if entry.seq in kept else "was exported, and is gone"
            return Break(chain.cell, entry.seq, why)
    return None


def missing_end(chain: Chain, end: End) -> Break | None:
    """An end of the chain that somebody has seen before, and that it does not hold any more. Where it was dropped, a
    later seal that the chain holds stands for it."""
    if chain.holds(end):
        return None
    if end[0] < chain.first and chain.seal and chain.holds((chain.seal.seq, chain.seal.hash)):
        return None
    return Break(chain.cell, end[0], "an orchestrator has seen it otherwise")


def _breaks(chain: Chain, keyring: Keyring) -> Iterator[Break]:
    first = chain.first
    if not may_begin_at(first, is_full=chain.is_full, seal=chain.seal, keyring=keyring):
        yield Break(chain.cell, 1, f"in its place stands #{first}, and too few are kept for it to have been dropped")
    prev_hash = "" if first == 1 else None
    for seq, entry in enumerate(chain.entries, first):
        if why := _trouble(entry, seq, prev_hash):
            yield Break(chain.cell, seq, why)
        prev_hash = entry.hash
    last = first + len(chain.entries) - 1
    if chain.head != (last, prev_hash or ""):
        head = "cannot be read" if chain.head == NO_HEAD else f"is #{chain.head[0]}"
        yield Break(chain.cell, last + 1, f"the log ends here, but its head {head}")
    if chain.seal and (why := _seal_trouble(chain.seal, chain, keyring)):
        yield Break(chain.cell, chain.seal.seq, why)


def _trouble(entry: AuditEntry, seq: int, prev_hash: str | None) -> str:
    """`prev_hash`: None where the entry before it was dropped."""
    if hashlib.sha256(entry.body).hexdigest() != entry.hash:
        return "its content is not what was hashed"
    if entry.seq != seq:
        return f"in its place stands #{entry.seq}"
    return "" if prev_hash in (None, entry.fields.get("prev_hash")) else "it does not follow the entry before it"


def _seal_trouble(seal: Seal, chain: Chain, keyring: Keyring) -> str:
    if why := seal_fault(seal, keyring):
        return f"its seal cannot be trusted: {why}"
    if seal.seq == 0 or chain.holds((seal.seq, seal.hash)):
        return ""
    is_there = chain.first <= seal.seq < chain.first + len(chain.entries)
    return "it was sealed otherwise" if is_there else "it was sealed, and is gone"


def _statement(cell: int, seq: int, hash_: str, at_ms: int, first: int) -> bytes:
    """Of a log that begins with its first entry as in releases that dropped none."""
    return _SEAL + " ".join(map(str, (cell, seq, hash_, at_ms, *([first] if first > 1 else [])))).encode()
