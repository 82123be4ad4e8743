"""`muster plan`: a plan in a file, and the plan of a task."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from envelope.errors import ExitCode
from envelope.scope import Scope
from repo.errors import CommitMissing, RepositoryMissing
from repo.local import describe

from ..agent_files import agent_files
from ..errors import BadInput
from ..planner.checks import Bounds
from ..planner.files import file_faults, read_plan
from ..planner.team import roster_among
from ..settings import load_settings
from ..submit import scope_of
from ..trust import TrustStore, trusted_digest
from .console import data, note, plain, warn
from .find import find_task
from .fleet import open_records
from .options import JsonLines, Repo, TaskId
from .plan_lines import plan_lines

app = typer.Typer(no_args_is_help=True)


@app.command("check")
def check(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Markdown with sections, or steps as .json or .toml.")],
    repo: Repo = Path(),
    as_json: JsonLines = False,
) -> None:
    """Check a plan: the sections of a plan file, or the steps of a structured one."""
    text = read_plan(file)
    faults = file_faults(file.name, text, Bounds(agents=asyncio.run(_agents(repo)) if file.suffix != ".md" else None))
    for fault in faults:
        if as_json:
            data(json.dumps(asdict(fault)))
        else:
            warn(f"{file.name}: {fault.message}", fault.hint)
    if faults:
        raise typer.Exit(ExitCode.USAGE)
    note(f"{file.name}: nothing wrong")


@app.command("show")
def show(task: TaskId, as_json: JsonLines = False) -> None:
    """Show the plan of a task, and how far each step is; of a goal, also those of the tasks below it."""
    asyncio.run(_show(task, as_json))


async def _agents(repo: Path) -> dict[str, Scope]:
    """Who could do a step here: the agents of this machine, and those of the repository, if there is one."""
    git_dir, commit, trusted = None, "", ""
    with suppress(RepositoryMissing, CommitMissing):
        local = await describe(repo)
        git_dir, commit = local.git_dir, local.head
        trusted = await trusted_digest(TrustStore(load_settings().state_dir), local.root, local.git_dir, local.head)
    found = await agent_files().catalogue(git_dir, commit, trusted)
    return {card.name: scope_of(card) for card in roster_among(found.agents)}


async def _show(words: str, as_json: bool) -> None:
    async with open_records(load_settings()) as muster:
        record = await find_task(muster, words)
        own = await muster.plans(record.task_id)
    if not own:
        hint = "plans are made by: muster run --plan layered, or by an agent that calls plan_update"
        raise BadInput(f"the task {record.task_id} has no plan", hint=hint)
    for task_id, plan in own.items():
        if as_json:
            data(json.dumps({"task_id": task_id, "plan": plan.model_dump(mode="json")}))
        else:
            for line in plan_lines(plan):
                data(plain(line))
