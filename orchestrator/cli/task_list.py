"""`muster task list`, which is asked for most: in a module of its own, because it needs least (`commands.py`)."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from ..settings import load_settings
from .find import find_task
from .fleet import open_records
from .listing import print_tasks
from .options import JsonLines

app = typer.Typer()


@app.command("list")
def list_tasks(
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="How many, latest first.")] = 20,
    trace: Annotated[str, typer.Option(metavar="TASK", help="All tasks of this one's trace.")] = "",
    as_json: JsonLines = False,
) -> None:
    """List the latest goals, batches and shards."""
    asyncio.run(_list(limit, trace, as_json))


async def _list(limit: int, trace: str, as_json: bool) -> None:
    async with open_records(load_settings()) as muster:
        trace_id = (await find_task(muster, trace)).trace_id if trace else None
        tasks = await muster.tasks(trace_id=trace_id, limit=limit)
        print_tasks(tasks, now_ms=await muster.transport.now_ms(), as_json=as_json)
