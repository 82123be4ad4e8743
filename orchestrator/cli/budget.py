"""`muster budget`: what goals, batches and tenants may spend, and letting them spend more."""

from __future__ import annotations

import asyncio
import json
from typing import Annotated

import typer

from transport.base import TaskRecord
from transport.money import Ledger

from ..budgets import Funds
from ..client import Muster
from ..errors import BadInput
from ..session.told import funds_as_json, ledger_as_json
from ..settings import load_settings
from ..units import dollars
from ..words import counted, short
from .console import data, note
from .find import find_task
from .fleet import open_records
from .options import microusd, task_words
from .person import person

app = typer.Typer()

Task = Annotated[str, typer.Argument(metavar="[TASK]", help="A goal, a batch, or a task of one.")]
Tenant = Annotated[str, typer.Option("--tenant", metavar="TENANT", help="All that a tenant spends, instead of a task.")]
InJson = Annotated[bool, typer.Option("--json", help="For programs: one JSON object on stdout.")]
MAX_PARTS = 20


@app.callback()
def budget() -> None:
    """See what goals, batches and tenants spend, and let them spend more."""


@app.command("show")
def show(task: Task = "", tenant: Tenant = "", in_json: InJson = False) -> None:
    """Show what is spent, set aside and allowed, and who waits for more."""
    asyncio.run(_show(task, tenant, in_json))


@app.command("raise")
def raise_budget(
    to: Annotated[str, typer.Option("--to", metavar="USD", help="The new cap of its trace: 2.50.")],
    task: Task = "",
    tenant: Tenant = "",
) -> None:
    """Raise a cap; whoever waits for money goes on. A batch's live shards share what is left."""
    asyncio.run(_raise(task, tenant, microusd(_usd(to)) or 0))


@app.command("cap")
def cap(
    tenant: Annotated[str, typer.Argument(metavar="TENANT", help="Who.")],
    to: Annotated[
        str, typer.Option("--to", metavar="USD", help="In all its traces together [default: as much as it likes].")
    ] = "",
) -> None:
    """Say what a tenant may spend in all, from now on."""
    asyncio.run(_cap(tenant, microusd(_usd(to)) if to else None))


def _usd(text: str) -> float:
    try:
        usd = float(text.removeprefix("$"))
    except ValueError:
        usd = -1.0
    if not 0 <= usd <= 1_000_000:
        raise BadInput(f"{text!r} is no amount of dollars", hint="write it as 2.50")
    return usd


def _require_one(task: str, tenant: str) -> None:
    if bool(task) == bool(tenant):
        raise BadInput("name a task, or a tenant", hint="muster budget show TASK, or --tenant NAME")
    if task:
        task_words(task)


async def _show(words: str, tenant: str, in_json: bool) -> None:
    _require_one(words, tenant)
    async with open_records(load_settings()) as muster:
        if tenant:
            ledger = await muster.tenant_budget(tenant)
            data(json.dumps(ledger_as_json(ledger))) if in_json else note(f"{tenant}: {ledger_text(ledger)}")
            return
        record = await find_task(muster, words)
        funds = await muster.budget(record.trace_id)
    if in_json:
        data(json.dumps(funds_as_json(funds)))
    else:
        _tell(record, funds)


def _tell(record: TaskRecord, funds: Funds) -> None:
    note(ledger_text(funds.ledger))
    costliest = sorted(funds.parts.items(), key=lambda part: -part[1].spent_microusd)
    for task_id, part in costliest[:MAX_PARTS]:
        note(f"  {short(task_id)}: {ledger_text(part)}")
    if hidden := len(costliest) - MAX_PARTS:
        note(f"  and {counted(hidden, 'shard')} more") if hidden > 0 else None
    for task_id, amount in funds.reserved.items():
        note(f"  {short(task_id)} has set {dollars(amount)} aside for what it is at")
    if funds.waiting:
        waiting = ", ".join(map(short, funds.waiting[:MAX_PARTS]))
        note(f"{counted(len(funds.waiting), 'task')} waits for more: {waiting}")
        note(f"hint: muster budget raise {short(record.task_id)} --to USD, or the tenant's: muster budget cap")


def ledger_text(ledger: Ledger) -> str:
    """
    >>> ledger_text(Ledger(250_000, 1_000_000, 10_000)), ledger_text(Ledger(0, None))
    ('$0.2500 of $1.00 are spent, $0.0100 are set aside', '$0.00 are spent, there is no cap')
    """
    spent, cap = dollars(ledger.spent_microusd), ledger.cap_microusd
    told = f"{spent} are spent, there is no cap" if cap is None else f"{spent} of {dollars(cap)} are spent"
    return f"{told}, {dollars(ledger.reserved_microusd)} are set aside" if ledger.reserved_microusd else told


async def _raise(words: str, tenant: str, cap_microusd: int) -> None:
    _require_one(words, tenant)
    async with open_records(load_settings()) as muster:
        if tenant:
            ledger = await _raise_tenant(muster, tenant, cap_microusd)
        else:
            record = await find_task(muster, words)
            ledger = await muster.raise_budget(record.trace_id, cap_microusd, by=person())
    if ledger.cap_microusd is None:
        note("this trace has no cap")
    else:
        note(f"its cap is {dollars(ledger.cap_microusd)}, of which {dollars(ledger.spent_microusd)} are spent")


async def _raise_tenant(muster: Muster, tenant: str, cap_microusd: int) -> Ledger:
    now = await muster.tenant_budget(tenant)
    if now.cap_microusd is None or now.cap_microusd >= cap_microusd:
        raise BadInput(
            f"that is no raise: {tenant}: {ledger_text(now)}", hint=f"to set or lower a cap: muster budget cap {tenant}"
        )
    return await muster.cap_tenant(tenant, cap_microusd, by=person())


async def _cap(tenant: str, cap_microusd: int | None) -> None:
    async with open_records(load_settings()) as muster:
        note(f"{tenant}: {ledger_text(await muster.cap_tenant(tenant, cap_microusd, by=person()))}")
