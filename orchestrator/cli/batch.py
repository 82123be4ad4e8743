"""`muster batch`: one change over many files or repositories."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from envelope.errors import ExitCode
from envelope.lifecycle import State
from envelope.messages import TaskResult
from transport.base import Handle

from ..batch.file import load_batch
from ..batch.formats import FORMATS
from ..batch.plan import Sources, planned
from ..batch.report import BatchReport, report_of
from ..batch.spec import BatchSpec
from ..client import Muster
from ..errors import BadInput, near_miss
from ..publication.terms import Form
from ..session.fold import Session
from ..settings import load_settings
from ..submit import BATCH
from .batch_asking import agreed_on, tell_difference
from .batch_estimate import agreed_to_batch
from .batch_file import check, init, show_preview, with_undone
from .batch_life import cancel, diff, status
from .batch_overlaps import overlaps
from .batch_submit import submitted, tell_moved
from .console import data, note
from .find import find_task
from .fleet import open_fleet, open_records
from .follow import follow
from .listing import print_tasks
from .options import AllowDirty, Detach, Json, JsonLines, NoInput, TaskId, Yes, ask_terms
from .outcome import exit_code_after
from .places import recall, repositories_of
from .publish import publish_bundle
from .show import show_task
from .summary import summary_of_batch, summary_of_run

app = typer.Typer()
COMMANDS = {
    "init": init, "check": check, "preview": show_preview, "diff": diff, "overlaps": overlaps, "status": status,
    "cancel": cancel,
}  # fmt: skip
for name, command in COMMANDS.items():
    app.command(name)(command)

LATEST = 1000  # how many of the latest roots are searched for batches


@app.command("run")
def run(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The batch file: TOML or YAML.")],
    detach: Detach = False,
    as_json: Json = False,
    no_input: NoInput = False,
    allow_dirty: AllowDirty = False,
    yes: Yes = False,
) -> None:
    """Run the batch in FILE, and set its branch to what was merged.

    Killing this command stops nothing. Running it again joins the batch, or shows what came of it.
    """
    told = {"may_ask": not no_input, "allow_dirty": allow_dirty, "yes": yes}
    raise typer.Exit(asyncio.run(_run(file, detach, as_json, **told)))


@app.command("attach")
def attach(
    task: TaskId,
    file: Annotated[Path | None, typer.Option(metavar="FILE", help="Its batch file, if it was moved.")] = None,
    as_json: Json = False,
) -> None:
    """Follow a batch that runs or ran, and set its branch once it is done."""
    raise typer.Exit(asyncio.run(_attach(task, file, as_json)))


@app.command("resume")
@app.command("retry")
def retry(
    task: TaskId,
    detach: Detach = False,
    as_json: Json = False,
    no_input: NoInput = False,
    allow_dirty: AllowDirty = False,
    yes: Yes = False,
) -> None:
    """Go on with a batch that was started here, and failed or was cancelled. What was done is not done again."""
    told = {"may_ask": not no_input, "allow_dirty": allow_dirty, "yes": yes}
    raise typer.Exit(asyncio.run(_retry(task, detach, as_json, **told)))


@app.command("list")
def list_batches(as_json: JsonLines = False) -> None:
    """List the latest batches."""
    asyncio.run(_list(as_json))


@app.command("show")
def show(task: TaskId, as_json: JsonLines = False) -> None:
    """Show what a batch came to; with --json its whole report."""
    asyncio.run(_show(task, as_json))


@app.command("report")
def print_report(
    task: TaskId,
    form: Annotated[str, typer.Option("--format", metavar="FORM", help=f"One of: {', '.join(FORMATS)}.")] = "markdown",
) -> None:
    """Print what a batch came to, for other programs. It says nothing by its exit code: `batch show` does."""
    asyncio.run(_report(task, form))


async def _run(file: Path, detach: bool, as_json: bool, *, may_ask: bool, allow_dirty: bool, yes: bool) -> int:
    settings = load_settings()
    spec = load_batch(file)
    plan = await planned(spec, file, settings, Sources(allow_dirty=allow_dirty, tell=note))
    if spec.shards.failures_of is None:
        plan = await agreed_on(plan, settings, may_ask=may_ask, yes=yes)
    async with open_fleet(settings) as muster:
        plan = await with_undone(muster, plan)
        await tell_difference(muster, plan, settings)
        if not await agreed_to_batch(muster, plan, may_ask=may_ask and not (yes or detach or as_json)):
            return ExitCode.CANCELLED
        asks = ask_terms(settings, list(plan.folders.values()), no_input=not may_ask)
        handle = await submitted(muster, plan, settings, asks)
        if detach:
            note(f"it runs; join it with: muster batch attach {handle.task_id}")
            data(handle.task_id)
            return ExitCode.OK
        code = await _follow(muster, handle, plan.spec, plan.folders, as_json=as_json, may_ask=may_ask, owner=True)
        result = await muster.result(handle.task_id)
        if result is not None and (report := report_of(result)) is not None:
            await tell_moved(plan, report)
        return code


async def _retry(words: str, detach: bool, as_json: bool, *, may_ask: bool, allow_dirty: bool, yes: bool) -> int:
    settings = load_settings()
    async with open_records(settings) as muster:
        record = await find_task(muster, words)
        result = await muster.result(record.task_id)
    if record.agent != BATCH or result is None or result.status is State.COMPLETED:
        told = (
            "is no batch" if record.agent != BATCH else "is under way" if result is None else "has nothing that failed"
        )
        raise BadInput(f"the task {record.task_id} {told}", hint=f"muster task show {record.task_id}")
    file = recall(settings, record.task_id)
    return await _run(file, detach, as_json, may_ask=may_ask, allow_dirty=allow_dirty, yes=yes)


async def _attach(words: str, file: Path | None, as_json: bool) -> int:
    settings = load_settings()
    async with open_fleet(settings) as muster:
        record = await find_task(muster, words)
        if record.agent != BATCH:
            raise BadInput(f"the task {record.task_id} is no batch", hint=f"muster task watch {record.task_id}")
        source = file or recall(settings, record.task_id)
        spec = load_batch(source)
        handle = Handle(record.task_id, record.trace_id)
        folders = repositories_of(spec, source)
        return await _follow(muster, handle, spec, folders, as_json=as_json, may_ask=False, owner=False)


async def _follow(
    muster: Muster,
    handle: Handle,
    spec: BatchSpec,
    folders: Mapping[str, Path],
    *,
    as_json: bool,
    may_ask: bool,
    owner: bool,
) -> int:
    """To the end: the live tree, then the branches, then the summary."""
    view = Session.of(handle.task_id, handle.trace_id, agent=BATCH, title=spec.name)
    followed = await follow(muster, view, as_json=as_json, may_ask=may_ask, owner=owner)
    if followed.result is not None:
        await _conclude(muster, followed.view, followed.result, spec, folders)
    return exit_code_after(followed)


async def _conclude(
    muster: Muster, view: Session, result: TaskResult, spec: BatchSpec, folders: Mapping[str, Path]
) -> None:
    cap = spec.limits.budget_microusd(muster.settings.budget_microusd)
    report = report_of(result)
    if report is None:
        summary_of_run(view, result, cap_microusd=cap).print()
        return
    elsewhere = spec.publish if spec.publish and spec.publish.to is not Form.BRANCH else None
    published = frozenset[str]() if elsewhere else await _publish(muster, result, report, spec, folders)
    summary_of_batch(view, result, report, cap_microusd=cap, published=published).print()
    if elsewhere:
        from .publish_batch import publish_batch  # only now: few batches need what it imports

        await publish_batch(muster, result.task_id, elsewhere, folders)


async def _publish(
    muster: Muster, result: TaskResult, report: BatchReport, spec: BatchSpec, folders: Mapping[str, Path]
) -> frozenset[str]:
    """Set the branches of those repositories whose change may go: see `Terms.lets_go`."""
    ready = [
        repository
        for repository in report.repositories
        if spec.publish
        and repository.name in folders
        and repository.changed
        and repository.bundle
        and spec.publish.lets_go(verified=repository.verified, is_judged=spec.gate is not None)
    ]
    for repository in ready:
        await publish_bundle(
            muster,
            result,
            name=repository.bundle,
            repository=folders[repository.name],
            branch=report.branch,
            commit=repository.commit,
        )
    return frozenset(repository.name for repository in ready)


async def _list(as_json: bool) -> None:
    async with open_records(load_settings()) as muster:
        batches = [task for task in await muster.tasks(limit=LATEST) if task.agent == BATCH]
        print_tasks(batches, now_ms=await muster.transport.now_ms(), as_json=as_json)


async def _report(words: str, form: str) -> None:
    if form not in FORMATS:
        raise BadInput(f"there is no report format {form!r}", hint=near_miss(form, FORMATS))
    async with open_records(load_settings()) as muster:
        record = await find_task(muster, words)
        whole = await muster.batches.report(record.task_id)
    data(FORMATS[form](whole).rstrip("\n"))


async def _show(words: str, as_json: bool) -> None:
    async with open_records(load_settings()) as muster:
        record = await find_task(muster, words)
        if not as_json:
            await show_task(muster, record)
            return
        try:
            data((await muster.batches.report(record.task_id)).model_dump_json())
        except BadInput:  # under way, or it ended before there was one
            print_tasks([record], now_ms=await muster.transport.now_ms(), as_json=True)
