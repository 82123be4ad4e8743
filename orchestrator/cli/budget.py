"""`muster budget`: let a goal or a batch spend more."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from ..errors import BadInput
from ..settings import load_settings
from .console import note
from .find import find_task
from .fleet import open_records
from .options import TaskId, microusd
from .person import person
from .units import dollars

app = typer.Typer()


@app.callback()
def budget() -> None:
    """Let a goal or a batch spend more."""


@app.command("raise")
def raise_budget(
    task: TaskId, to: Annotated[str, typer.Option("--to", metavar="USD", help="The new cap of its trace: 2.50.")]
) -> None:
    """Raise the cap of a task's trace; whoever waits for money goes on."""
    asyncio.run(_raise(task, _usd(to)))


def _usd(text: str) -> float:
    try:
        usd = float(text.removeprefix("$"))
    except ValueError:
        usd = -1.0
    if not 0 <= usd <= 1_000_000:
        raise BadInput(f"{text!r} is no amount of dollars", hint="write it as 2.50")
    return usd


async def _raise(words: str, usd: float) -> None:
    async with open_records(load_settings()) as muster:
        record = await find_task(muster, words)
        ledger = await muster.raise_budget(record.trace_id, microusd(usd) or 0, by=person())
    if ledger.cap_microusd is None:
        note("this trace has no cap")
    else:
        note(f"its cap is {dollars(ledger.cap_microusd)}, of which {dollars(ledger.spent_microusd)} are spent")
