"""`muster task tree`, `cost` and `resume`: a trace as it is now, its money, and going on with a session."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from ..client import Muster
from ..costs import Cost
from ..looking import GATES, SETS_UP, require_looking
from ..session.task import Spent
from ..session.told import cost_as_json, tree_as_json
from ..settings import load_settings
from ..units import dollars, tokens
from ..words import short
from .console import data, people, plain
from .find import find_task
from .fleet import open_records
from .options import Allow, Budget, Deadline, Detach, Gate, Json, Model, Setup, TaskId, Yes
from .report_forms import Report, wanted_reports
from .resuming import Resuming, resume_options, resumed
from .run_options import GateRule
from .tree import tree

app = typer.Typer()

InJson = Annotated[bool, typer.Option("--json", help="For programs: one JSON object on stdout.")]
MAX_ROWS = 10_000


@app.command("tree")
def show_tree(task: TaskId, in_json: InJson = False) -> None:
    """Show the tasks of a task's trace as they are now."""
    asyncio.run(_tree(task, in_json))


@app.command("cost")
def show_cost(task: TaskId, in_json: InJson = False) -> None:
    """Show what a task's trace has cost, by model and by agent, beside its cap."""
    asyncio.run(_cost(task, in_json))


@app.command("resume")
def resume(
    task: TaskId,
    prompt: Annotated[str, typer.Argument(help="What to say first [default: go on].")] = "",
    gate: Gate = None,
    gate_rule: GateRule = None,
    setup: Setup = None,
    budget: Budget = None,
    deadline: Deadline = None,
    model: Model = "",
    allow: Allow = None,
    detach: Detach = False,
    as_json: Json = False,
    yes: Yes = False,
    report: Report = None,
) -> None:
    """Go on, in a new task, with the session of one that has ended, however it ended.

    What is not said is as before: gate, rules, setup, grants, limits. The change is proved against what the session
    began with, and against what was verified in it last.
    """
    settings = load_settings()
    now = resume_options(budget, deadline, gate=gate, gate_rule=gate_rule, setup=setup, model=model, allow=allow)
    if settings.read_only:
        require_looking({GATES: gate, SETS_UP: setup}, now.allow)
    wish = Resuming(task, prompt, now, detach, as_json, yes, settings, wanted_reports(report))
    raise typer.Exit(asyncio.run(resumed(wish)))


async def _tree(words: str, in_json: bool) -> None:
    async with open_records(load_settings()) as muster:
        record = await find_task(muster, words)
        session = await muster.tree(record.trace_id)
        if in_json:
            data(json.dumps(tree_as_json(session, record.trace_id)))
        else:
            people().print(tree(session, now_ms=await muster.transport.now_ms(), max_rows=MAX_ROWS))


async def _cost(words: str, in_json: bool) -> None:
    async with open_records(load_settings()) as muster:
        cost = await _cost_of(muster, words)
    if in_json:
        data(json.dumps(cost_as_json(cost)))
        return
    table = Table.grid(padding=(0, 2))
    for _ in range(2):
        table.add_column(no_wrap=True)
    for _ in range(2):
        table.add_column(justify="right", no_wrap=True)
    for what, name, spent in _rows(cost):
        used = spent.usage.total_tokens
        table.add_row(Text(what, style="dim"), plain(name), dollars(spent.cost_microusd), tokens(used) if used else "")
    people().print(table)
    people().print(Text(cap_text(cost)))
    for task_id, amount in cost.reserved.items():
        people().print(Text(f"{short(task_id)} has set {dollars(amount)} aside for what it is at", style="dim"))


def cap_text(cost: Cost) -> str:
    """
    >>> from transport.money import Ledger
    >>> cap_text(Cost(Ledger(250_000, 1_000_000, 0), {}, {"build": Spent(cost_microusd=250_000)}, {}))
    '$0.2500 of $1.00 are spent'
    """
    cap = cost.ledger.cap_microusd
    spent = dollars(cost.spent_microusd)
    return f"{spent} are spent; there is no cap" if cap is None else f"{spent} of {dollars(cap)} are spent"


async def _cost_of(muster: Muster, words: str) -> Cost:
    return await muster.cost((await find_task(muster, words)).trace_id)


def _rows(cost: Cost) -> Iterator[tuple[str, str, Spent]]:
    tables: Mapping[str, Mapping[str, Spent]] = {"by model": cost.by_model, "by agent": cost.by_agent}
    for what, table in tables.items():
        for index, (name, spent) in enumerate(sorted(table.items(), key=lambda row: -row[1].cost_microusd)):
            yield "" if index else what, name, spent
