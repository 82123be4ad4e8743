"""The audit log's seals: each orchestrator signs how far the log has come, unless what it saw before is gone.

What was seen is kept in the registry, which no worker's user may write: each orchestrator knows what the others saw.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping

from envelope.logs import get_logger
from transport.audit import End
from transport.base import Transport

from .settings import Settings

EVERY_S = 60.0
ENDS = "audit-ends"  # a table of the registry: a cell → the number and the hash of the last entry that was sealed

_log = get_logger("sealing")


async def keep_sealed(transport: Transport, settings: Settings) -> None:
    """Once a minute, until cancelled."""
    while True:
        await seal(transport, settings)
        await asyncio.sleep(EVERY_S)


async def seal(transport: Transport, settings: Settings) -> Mapping[int, End]:
    """The ends that were signed; a chain that lost what was seen of it is told to the log, each time."""
    known = await read_ends(transport, settings)
    ends = await transport.audit.seal(known)
    for cell in known.keys() - ends.keys():
        _log.error("audit_log_broken", cell=cell, seen=known[cell][0], hint="muster audit verify")
    for cell, end in ends.items():
        if end != known.get(cell):
            await transport.registry.put(ENDS, str(cell), json.dumps(end).encode())
    return ends


async def read_ends(transport: Transport, settings: Settings) -> dict[int, End]:
    """What orchestrators have seen, whichever it was; nothing where none ran, or what stands there is spoilt."""
    rows = await transport.registry.rows(ENDS)
    return _of_file(settings) | {int(cell): end for cell, row in rows.items() if (end := _end(row))}


def _end(row: bytes) -> End | None:
    try:
        seq, hash_ = json.loads(row)
        return int(seq), str(hash_)
    except (ValueError, TypeError):
        return None


def _of_file(settings: Settings) -> dict[int, End]:
    """What an older release has seen."""
    try:
        rows = json.loads((settings.state_dir / "audit" / f"{settings.fleet}.json").read_text())
        return {int(cell): (int(seq), str(hash_)) for cell, (seq, hash_) in rows.items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}
