"""`muster pool`: what waits and runs, and what tenants get."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from envelope.agents import WorkerCard
from transport.base import Allotment, PoolStats

from ..settings import load_settings
from ..units import duration
from ..words import counted
from .console import data, note, people
from .fleet import open_records
from .options import JsonLines
from .person import person

app = typer.Typer()


@app.command("list")
def list_pools(as_json: JsonLines = False) -> None:
    """List the pools: who serves them, what waits and what runs."""
    asyncio.run(_list(as_json))


@app.command("tenants")
def tenants(as_json: JsonLines = False) -> None:
    """List what tenants get beside others. Who is not listed has the weight 1 and no cap."""
    asyncio.run(_tenants(as_json))


@app.command("allot")
def allot(
    tenant: Annotated[str, typer.Argument(metavar="TENANT", help="Who.")],
    weight: Annotated[float, typer.Option(help="Its part of the starts, beside others' parts.")] = 1.0,
    max_running: Annotated[
        int | None, typer.Option("--max-running", metavar="N", help="At most so many tasks at once; 0 stops it.")
    ] = None,
    max_queued: Annotated[
        int | None, typer.Option("--max-queued", metavar="N", help="At most so many tasks in line.")
    ] = None,
    max_tree: Annotated[
        int | None,
        typer.Option(
            "--max-tree",
            metavar="N",
            help="At most so many tasks of one goal, ended ones too. Each shard of a batch counts as a goal.",
        ),
    ] = None,
) -> None:
    """Say what a tenant gets beside others, from now on. What is not named is as for everybody: no cap on what runs,
    1,000,000 tasks in line, 100,000 of one goal."""
    asyncio.run(_allot(tenant, Allotment(weight, max_running, max_queued, max_tree)))


async def _list(as_json: bool) -> None:
    async with open_records(load_settings()) as muster:
        stats, workers = await muster.pools(), await muster.workers()
    rows = [(pool, [card for card in workers if card.pool == pool.pool]) for pool in stats]
    if as_json:
        for pool, cards in rows:
            data(
                json.dumps(
                    {
                        **asdict(pool),
                        "workers": len(cards),
                        "slots": sum(card.slots for card in cards),
                        "commands": _commands(cards),
                    }
                )
            )
        return
    table = Table.grid(padding=(0, 2))
    for pool, cards in rows:
        table.add_row(*_cells(pool, cards))
    people().print(table)


def _cells(pool: PoolStats, cards: Sequence[WorkerCard]) -> tuple[Text | str, ...]:
    served = f"{counted(len(cards), 'worker')}, {counted(sum(card.slots for card in cards), 'slot')}"
    if commands := _commands(cards):
        served += f", {counted(commands, 'command')} at once"
    oldest = f"the oldest for {duration(int(pool.oldest_ready_age_s * 1000))}" if pool.ready else ""
    return (
        Text(pool.pool, style="bold"),
        Text(served, style="" if cards else "yellow"),
        f"{pool.running} running",
        f"{pool.ready} in line",
        Text(oldest, style="dim"),
    )


def _commands(cards: Sequence[WorkerCard]) -> int:
    """That run at once: the workers of a host share a limit."""
    return sum({card.host: card.commands for card in cards}.values())


async def _tenants(as_json: bool) -> None:
    async with open_records(load_settings()) as muster:
        allotments = await muster.allotments()
    table = Table.grid(padding=(0, 2))
    for tenant, allotment in sorted(allotments.items()):
        if as_json:
            data(json.dumps({"tenant": tenant, **asdict(allotment)}))
        table.add_row(Text(tenant, style="bold"), _allotted(allotment))
    if not as_json:
        people().print(table if allotments else Text("every tenant has the weight 1 and no cap", style="dim"))


async def _allot(tenant: str, allotment: Allotment) -> None:
    async with open_records(load_settings()) as muster:
        await muster.allot(tenant, allotment, by=person())
    note(f"{tenant}: {_allotted(allotment)}")


def _allotted(allotment: Allotment) -> str:
    cap = "no cap" if allotment.max_running is None else f"at most {allotment.max_running} at once"
    bounds = [
        f", at most {most} {what}"
        for most, what in ((allotment.max_queued, "in line"), (allotment.max_tree, "of one goal"))
        if most is not None
    ]
    return f"weight {allotment.weight:g}, {cap}{''.join(bounds)}"
