"""`muster audit`: who decided what, and whether the log of it is whole."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, cast

import typer
from rich.table import Table
from rich.text import Text

from envelope.errors import ExitCode
from transport.approvals import RECORDED
from transport.audit import AuditEntry

from ..audit import exported, read_export, told, verified
from ..sealing import read_ends
from ..settings import load_settings
from ..words import clock, counted, short
from .console import data, note, people, plain, warn
from .fleet import open_records
from .options import JsonLines

app = typer.Typer()

MOST = 10_000
# Of a trace's or a task's id the end is enough; other subjects are names.
ID_CHARS = 32
UNSIGNED_HINT = "no worker takes it; whoever wrote it has the fleet's Redis: change its passwords (docs/audit.md)"

Against = Annotated[
    Path | None,
    typer.Option(exists=True, dir_okay=False, metavar="FILE", help="An earlier export, which must still be there."),
]


@app.callback()
def audit() -> None:
    """See who decided what, and check that the log of it is whole."""


@app.command("list")
def list_entries(
    limit: Annotated[int, typer.Option(min=1, max=MOST, help="How many, latest first.")] = 20,
    subject: Annotated[str, typer.Option(metavar="ID", help="Of this task or trace alone: its id, or its end.")] = "",
    as_json: JsonLines = False,
) -> None:
    """List who answered, cancelled, raised, requeued or issued what, the latest first."""
    asyncio.run(_list(limit, subject, as_json))


@app.command("verify")
def verify(against: Against = None) -> None:
    """Check the chain of hashes, its seal, and who signed answers.

    Exit code 1 when it is not whole, with the first broken entry, or when an answer has nobody's signature.
    """
    raise typer.Exit(asyncio.run(_verify(against)))


@app.command("export")
def export() -> None:
    """Print the whole log as JSON Lines: to keep elsewhere, and to verify against later."""
    asyncio.run(_export())


async def _list(limit: int, subject: str, as_json: bool) -> None:
    async with open_records(load_settings()) as muster:
        found = await muster.transport.audit.latest(MOST if subject else limit)
    entries = [entry for entry in found if str(entry.fields.get("subject", "")).endswith(subject)][:limit]
    if as_json:
        for entry in entries:
            data(json.dumps(told(entry)))
        return
    table = Table.grid(padding=(0, 2))
    for entry in entries:
        table.add_row(*_cells(entry))
    people().print(table if entries else Text("nobody has decided anything yet", style="dim"))


def _cells(entry: AuditEntry) -> tuple[Text, ...]:
    fields = entry.fields
    subject = str(fields.get("subject", "?"))
    named = short(subject) if len(subject) >= ID_CHARS else subject
    texts = (clock(entry.time_ms, day=True), fields.get("actor", "?"), fields.get("action", "?"), named)
    return (*(Text(plain(str(text))) for text in texts), Text(plain(_details(fields)), style="dim"))


def _details(fields: Mapping[str, Any]) -> str:
    details = fields.get("details")
    if not isinstance(details, dict):
        return ""
    told_ = cast(dict[str, Any], details).items()
    is_answer = fields.get("action") == "answer"
    return ", ".join(f"{name} {value}" for name, value in told_ if not (is_answer and name in RECORDED))


async def _verify(against: Path | None) -> ExitCode:
    earlier = read_export(against) if against else []
    async with open_records(load_settings()) as muster:
        found = await verified(
            muster.transport, against=earlier, ends=await read_ends(muster.transport, muster.settings)
        )
    for broken in found.breaks:
        where = f" of cell {broken.cell}" if broken.cell else ""
        warn(f"the audit log is broken at #{broken.seq}{where}: {broken.why}", "compare it with your last export")
    for entry, why in found.unsigned:
        who, ask = entry.fields.get("actor"), entry.fields.get("details", {}).get("ask")
        warn(f"#{entry.seq}: nobody vouches for the answer of {who} to {ask}: {why}", UNSIGNED_HINT)
    if found.breaks or found.unsigned:
        return ExitCode.NOT_ACCEPTABLE
    if found.earlier:
        note(f"{counted(found.earlier, 'answer')} from before the fleet signed them")
    note(f"{counted(found.entries, 'entry')}, whole; {found.sealed} of them under a seal")
    return ExitCode.OK


async def _export() -> None:
    async with open_records(load_settings()) as muster:
        for chain in await muster.transport.audit.chains():
            for entry in chain.entries:
                data(exported(entry))
