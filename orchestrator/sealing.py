"""The audit log's seals: each orchestrator signs how far the log has come, unless what it saw before is gone.

What was seen is kept in the state folder, where nobody gets who can write to Redis alone.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path

from envelope.logs import get_logger
from transport.audit import End
from transport.base import Transport
from transport.state_folder import private_folder

from .settings import Settings

EVERY_S = 60.0

_log = get_logger("sealing")


async def keep_sealed(transport: Transport, settings: Settings) -> None:
    """Once a minute, until cancelled."""
    while True:
        await seal(transport, settings)
        await asyncio.sleep(EVERY_S)


async def seal(transport: Transport, settings: Settings) -> Mapping[int, End]:
    """The ends that were signed; a chain that lost what was seen of it is told to the log, each time."""
    known = read_ends(settings)
    ends = await transport.audit.seal(known)
    for cell in known.keys() - ends.keys():
        _log.error("audit_log_broken", cell=cell, seen=known[cell][0], hint="muster audit verify")
    if ends and ends != known:
        _write(_file(settings), {**known, **ends})
    return ends


def read_ends(settings: Settings) -> dict[int, End]:
    """What orchestrators of this state folder have seen; nothing where none ran, or its file is spoilt."""
    try:
        rows = json.loads(_file(settings).read_text())
        return {int(cell): (int(seq), str(hash_)) for cell, (seq, hash_) in rows.items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}


def _write(file: Path, ends: Mapping[int, End]) -> None:
    private_folder(file.parent)
    part = file.with_suffix(".part")
    part.write_text(json.dumps(ends))
    part.replace(file)


def _file(settings: Settings) -> Path:
    return settings.state_dir / "audit" / f"{settings.fleet}.json"
