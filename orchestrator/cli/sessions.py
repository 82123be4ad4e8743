"""`muster session`: see, copy, share and put away what was said with agents."""

from __future__ import annotations

import asyncio
import json
import sys
from dataclasses import asdict
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from envelope.messages import TaskResult
from transport.base import Handle

from ..client import Muster
from ..errors import TaskFailed
from ..sessions import SessionRow
from ..settings import load_settings
from ..units import duration
from ..words import short
from .console import answer, data, note, people, plain
from .find import find_task
from .fleet import open_records
from .known import fleet_of
from .options import JsonLines, TaskId
from .tree import GLYPHS

app = typer.Typer()


@app.callback()
def session() -> None:
    """See, copy, share and put away sessions with agents. A task names its session; a goal its agent's."""


@app.command("list")
def list_sessions(
    limit: Annotated[int, typer.Option(min=1, max=1_000, help="How many, latest first.")] = 20,
    archived: Annotated[bool, typer.Option("--archived", help="Those that were archived, instead.")] = False,
    as_json: JsonLines = False,
) -> None:
    """List the sessions that people began, the latest first. Go on with one: muster task resume TASK."""
    asyncio.run(_list(limit, archived, as_json))


@app.command("show")
def show(task: TaskId, in_json: Annotated[bool, typer.Option("--json", help="For programs.")] = False) -> None:
    """Show a session: its turns, what was said and done. With --json where it stands."""
    asyncio.run(_show(task, in_json))


@app.command("fork")
def fork(
    task: TaskId,
    at: Annotated[
        int | None, typer.Option("--at", metavar="TURN", min=0, help="The turn to copy up to [default: the last].")
    ] = None,
) -> None:
    """Open a new session with a copy of one, up to a turn; the old one stays as it is, even while it runs.

    The id of the new session's task is printed: say something to it with `muster task prompt`.
    """
    asyncio.run(_fork(task, at))


@app.command("archive")
def archive(task: TaskId, restore: Annotated[bool, typer.Option("--restore", help="List it again.")] = False) -> None:
    """Leave a session out of listings. Nothing is lost by it."""
    asyncio.run(_archive(task, restore))


@app.command("export")
def export(
    task: TaskId,
    sanitize: Annotated[bool, typer.Option("--sanitize", help="Without the texts, so that it may be shared.")] = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="To read, instead of JSON.")] = False,
) -> None:
    """Print a session: its messages, calls, turns and costs."""
    asyncio.run(_export(task, sanitize, markdown))


async def _list(limit: int, archived: bool, as_json: bool) -> None:
    async with open_records(load_settings()) as muster:
        page = await muster.sessions(archived=archived, limit=limit)
        now_ms = await muster.transport.now_ms()
    if as_json:
        for row in page.sessions:
            data(json.dumps(asdict(row)))
        return
    table = Table.grid(padding=(0, 2))
    for row in page.sessions:
        table.add_row(*_cells(row, now_ms))
    people().print(table if table.row_count else Text("no sessions", style="dim"))


def _cells(row: SessionRow, now_ms: int) -> tuple[Text | str, ...]:
    glyph, style = GLYPHS[row.state]
    return (
        Text(short(row.task_id), style="bold"),
        Text(f"{glyph} {row.state}", style=style),
        row.agent,
        Text(plain(row.title), style="dim"),
        Text(f"{duration(now_ms - row.began_at_ms)} ago", style="dim"),
    )


async def _show(words: str, in_json: bool) -> None:
    async with open_records(load_settings()) as muster:
        record = await find_task(muster, words)
        if in_json:
            data(json.dumps(asdict(await muster.session(record.task_id))))
        else:
            answer(await muster.export(record.task_id, sanitize=False, markdown=True))


async def _fork(words: str, turn: int | None) -> None:
    async with fleet_of(load_settings(), words) as (muster, record):
        handle = await muster.fork(record.task_id, turn=turn)
        result = await _ended(muster, handle)
        if result.errors:
            raise TaskFailed(result.errors[0])
        note(result.output.text)
        note(f"go on with it: muster task prompt {handle.task_id} …")
        data(handle.task_id)


async def _ended(muster: Muster, handle: Handle) -> TaskResult:
    [result] = await muster.gather([handle])
    return result


async def _archive(words: str, restore: bool) -> None:
    async with open_records(load_settings()) as muster:
        record = await find_task(muster, words)
        await muster.archive(record.task_id, archived=not restore)
    note("its session is listed again" if restore else "its session is listed with --archived only")


async def _export(words: str, sanitize: bool, markdown: bool) -> None:
    async with open_records(load_settings()) as muster:
        record = await find_task(muster, words)
        sys.stdout.write(await muster.export(record.task_id, sanitize=sanitize, markdown=markdown))
