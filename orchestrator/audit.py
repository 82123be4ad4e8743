"""The audit log as operators use it: checked, exported, compared with an export."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, cast

from transport.approvals import UPGRADE_MS, SealKeys, Subject
from transport.audit import TIMEOUT, AuditEntry, Break, Chain, End, first_break, missing_end, missing_from
from transport.base import Transport

from .errors import BadInput


@dataclass(frozen=True, slots=True)
class Verified:
    """`breaks`: the first in each chain. `sealed`: how many entries a seal covers, whoever can write to the store.

    `unsigned`: answers that nobody vouches for, and why; `earlier`: how many there are from before answers were signed.
    """

    entries: int
    sealed: int
    breaks: tuple[Break, ...]
    unsigned: tuple[tuple[AuditEntry, str], ...] = ()
    earlier: int = 0


async def verified(
    transport: Transport, *, against: Sequence[AuditEntry] = (), ends: Mapping[int, End] = MappingProxyType({})
) -> Verified:
    """`against`: what was exported; `ends`: what an orchestrator here has seen. All of it must be there still."""
    chains = await transport.audit.chains()
    keys = SealKeys(transport.approvals, transport.keyring)
    unsigned = [found for chain in chains for found in _unsigned(transport, chain)]
    since_ms = transport.approvals.since_ms
    late = tuple((entry, why) for entry, why in unsigned if not since_ms or entry.time_ms >= since_ms + UPGRADE_MS)
    found = [
        first_break(chain, keys)
        or missing_from(chain, against)
        or (missing_end(chain, ends[chain.cell]) if chain.cell in ends else None)
        for chain in chains
    ]
    cells = {chain.cell for chain in chains}
    strangers = (entry for entry in against if entry.cell not in cells)
    foreign = next((Break(entry.cell, entry.seq, "was exported, and is gone") for entry in strangers), None)
    return Verified(
        sum(len(chain.entries) for chain in chains),
        sum(max(0, chain.seal.seq - chain.first + 1) for chain in chains if chain.seal),
        tuple(one for one in (*found, foreign) if one),
        late,
        len(unsigned) - len(late),
    )


def _unsigned(transport: Transport, chain: Chain) -> Iterator[tuple[AuditEntry, str]]:
    if not transport.approvals.are_known:
        return
    for entry in chain.entries:
        told_: dict[str, Any] = entry.fields
        details, by = told_.get("details"), str(told_.get("actor"))
        if told_.get("action") != "answer" or by == TIMEOUT or not isinstance(details, dict):
            continue
        named = cast(dict[str, Any], details)
        trace_id, ask_id = str(named.get("trace", "")), str(named.get("ask", ""))
        subject = Subject(transport.fleet, trace_id, str(told_.get("subject")), ask_id)
        if why := transport.approvals.fault_of_record(subject, by, named):
            yield entry, why


def told(entry: AuditEntry) -> dict[str, Any]:
    """Its fields, with what they hash to."""
    return {**entry.fields, "cell": entry.cell, "hash": entry.hash}


def exported(entry: AuditEntry) -> str:
    """One line of JSON, whose `body` is what was hashed, to the byte."""
    return json.dumps({"cell": entry.cell, "hash": entry.hash, "body": entry.body.decode(errors="surrogateescape")})


def read_export(file: Path) -> list[AuditEntry]:
    """`BadInput` for what is no export."""
    try:
        rows = [json.loads(line) for line in file.read_text().splitlines()]
        return [AuditEntry(int(row["cell"]), row["body"].encode(errors="surrogateescape"), row["hash"]) for row in rows]
    except (ValueError, KeyError, TypeError, AttributeError) as e:
        raise BadInput(f"{file} is no export of the audit log", hint="make one: muster audit export > FILE") from e
