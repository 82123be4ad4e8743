"""`muster batch`: one change over many files or repositories."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import typer

from envelope.errors import ExitCode
from envelope.lifecycle import State
from transport.base import Entry, Handle

from ..approvals import ask_terms
from ..batch.file import load_batch
from ..batch.report import report_of
from ..batch.request import BatchParams
from ..client import Muster
from ..errors import BadInput
from ..looking import refuse_write
from ..pages import records_of
from ..publication.terms import Form
from ..session.fold import Session
from ..settings import Settings, load_settings
from ..submit import BATCH, params_of
from ..watch import watch
from .batch_asking import agreed_on, tell_difference
from .batch_branches import refusals
from .batch_end import Conclusion, NoPublish, conclude
from .batch_estimate import agreed_to_batch
from .batch_file import check, init, plan_here, show_preview, with_undone
from .batch_life import cancel, diff, status
from .batch_overlaps import overlaps
from .batch_submit import done_before, submitted, tell_moved
from .console import data, note, warn
from .find import find_task
from .fleet import open_fleet, open_records
from .follow import Followed, follow
from .known import fleet_of, following
from .leaving import leave, require_lasting
from .listing import print_tasks
from .options import AllowDirty, Detach, Json, JsonLines, NoInput, ReadOnly, TaskId, Yes, settings_for
from .outcome import exit_code_after
from .places import known_file, latest_of, recall, repositories_of
from .publish import first_of
from .report_forms import FORMS, Report, require_form, wanted_reports
from .reports import formed, write_reports
from .show import show_task

app = typer.Typer()
COMMANDS = {
    "init": init, "check": check, "preview": show_preview, "diff": diff, "overlaps": overlaps, "status": status,
    "cancel": cancel,
}  # fmt: skip
for name, command in COMMANDS.items():
    app.command(name)(command)

TAKE = "muster publish TASK --repo PATH"
LATEST = 10_000  # how many of the latest roots are searched for batches that have ended


@app.command("run")
def run(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The batch file: TOML or YAML.")],
    detach: Detach = False,
    as_json: Json = False,
    no_input: NoInput = False,
    allow_dirty: AllowDirty = False,
    yes: Yes = False,
    report: Report = None,
    no_publish: NoPublish = False,
    read_only: ReadOnly = False,
) -> None:
    """Run the batch in FILE, and set its branch to what was merged.

    Killing this command stops nothing. Running it again joins the batch, or shows what came of it.
    """
    conclusion = Conclusion(wanted_reports(report), publishes=not no_publish)
    flags = {"detach": detach, "as_json": as_json, "may_ask": not no_input, "allow_dirty": allow_dirty, "yes": yes}
    asked = _Asked(settings_for(read_only=read_only), conclusion, **flags)
    raise typer.Exit(asyncio.run(_run(file, asked)))


@app.command("attach")
def attach(
    task: TaskId,
    file: Annotated[Path | None, typer.Option(metavar="FILE", help="Its batch file, if it was moved.")] = None,
    as_json: Json = False,
    report: Report = None,
    no_publish: NoPublish = False,
    read_only: ReadOnly = False,
) -> None:
    """Follow a batch that runs or ran, and set its branch once it is done. It may have been started elsewhere."""
    conclusion = Conclusion(wanted_reports(report), publishes=not no_publish)
    raise typer.Exit(asyncio.run(_attach(settings_for(read_only=read_only), task, file, as_json, conclusion)))


@app.command("resume")
@app.command("retry")
def retry(
    task: TaskId,
    _failed: Annotated[bool, typer.Option("--failed", help="What was not done: as it does without saying so.")] = True,
    detach: Detach = False,
    as_json: Json = False,
    no_input: NoInput = False,
    allow_dirty: AllowDirty = False,
    yes: Yes = False,
    report: Report = None,
    no_publish: NoPublish = False,
    read_only: ReadOnly = False,
) -> None:
    """Run the file of a batch once more that was started here, and failed or was cancelled, as the file and its
    repositories are now. What was done is not done again."""
    conclusion = Conclusion(wanted_reports(report), publishes=not no_publish)
    flags = {"detach": detach, "as_json": as_json, "may_ask": not no_input, "allow_dirty": allow_dirty, "yes": yes}
    asked = _Asked(settings_for(read_only=read_only), conclusion, **flags)
    raise typer.Exit(asyncio.run(_retry(task, asked)))


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
    form: Annotated[str, typer.Option("--format", metavar="FORM", help=f"One of: {', '.join(FORMS)}.")] = "markdown",
) -> None:
    """Print what a batch came to, for other programs. It says nothing by its exit code: `batch show` does."""
    asyncio.run(_report(task, form))


@dataclass(frozen=True, slots=True)
class _Asked:
    """The options by which a batch is started."""

    settings: Settings
    conclusion: Conclusion
    detach: bool
    as_json: bool
    may_ask: bool
    allow_dirty: bool
    yes: bool


async def _run(file: Path, asked: _Asked) -> int:
    settings = asked.settings
    if asked.detach:
        require_lasting(settings)
    plan = await plan_here(file, settings, allow_dirty=asked.allow_dirty)
    if plan.spec.shards.failures_of is None:
        plan = await agreed_on(plan, settings, may_ask=asked.may_ask, yes=asked.yes)
    refused = await refusals(plan, settings) if asked.conclusion.publishes else {}
    if refused and latest_of(settings, plan.file) is None:
        raise first_of(refused)
    async with open_fleet(settings) as muster:
        plan = await with_undone(muster, plan)
        if refused and await done_before(muster, plan, settings) is None:  # else its branch may well be as it was
            raise first_of(refused)
        found = await tell_difference(muster, plan)
        for warning in await muster.batches.obstacles(plan):
            warn(warning)
        waits = asked.may_ask and not (asked.yes or asked.detach or asked.as_json)
        if not await agreed_to_batch(muster, plan, count=found.runs if found else None, may_ask=waits):
            return ExitCode.CANCELLED
        terms = ask_terms(settings, list(plan.folders.values()), no_input=not asked.may_ask)
        handle = await submitted(muster, plan, settings, terms)
        if asked.detach:
            return leave(settings, handle, "muster batch attach")
        concluding = replace(asked.conclusion, spec=plan.spec, folders=plan.folders)
        code = await _follow(muster, handle, concluding, as_json=asked.as_json, may_ask=asked.may_ask, owner=True)
        result = await muster.result(handle.task_id)
        if result is not None and (report := report_of(result)) is not None:
            await tell_moved(plan, report)
        return code


async def _retry(words: str, asked: _Asked) -> int:
    async with open_records(asked.settings) as muster:
        record = await find_task(muster, words)
        result = await muster.result(record.task_id)
    if record.agent != BATCH or result is None or result.status is State.COMPLETED:
        told = (
            "is no batch" if record.agent != BATCH else "is under way" if result is None else "has nothing that failed"
        )
        raise BadInput(f"the task {record.task_id} {told}", hint=f"muster task show {record.task_id}")
    return await _run(recall(asked.settings, record.task_id), asked)


async def _attach(settings: Settings, words: str, file: Path | None, as_json: bool, conclusion: Conclusion) -> int:
    # A fleet's of this machine are opened under a lock, which nobody else gets for as long as branches are pushed.
    alone = bool(settings.redis_url) or not conclusion.publishes
    async with (following if alone else fleet_of)(settings, words) as (muster, record):
        if record.agent != BATCH:
            raise BadInput(f"the task {record.task_id} is no batch", hint=f"muster task watch {record.task_id}")
        handle = Handle(record.task_id, record.trace_id)
        conclusion = await _known_here(muster, handle, file, conclusion)
        if settings.read_only and conclusion.publishes and conclusion.spec and conclusion.spec.publish:
            refuse_write("the batch is published at its end", "add --no-publish")
        return await _follow(muster, handle, conclusion, as_json=as_json, may_ask=False, owner=False)


async def _known_here(muster: Muster, handle: Handle, file: Path | None, conclusion: Conclusion) -> Conclusion:
    """By the batch's file. Without it the batch is what was submitted, and only branches elsewhere can be set."""
    source = file or known_file(muster.settings, handle.task_id)
    if source is not None:
        spec = load_batch(source)
        return replace(conclusion, spec=spec, folders=repositories_of(spec, source))
    spec = params_of(BatchParams, await muster.request(handle.task_id)).spec
    if conclusion.publishes and spec.publish is not None and spec.publish.to is Form.BRANCH:
        note(f"it was not started here, so that its branch is not set; name its file: --file FILE, or see: {TAKE}")
    return replace(conclusion, spec=spec)


async def _follow(
    muster: Muster, handle: Handle, conclusion: Conclusion, *, as_json: bool, may_ask: bool, owner: bool
) -> int:
    """To the end: the live tree, then the reports, the branches, and the summary. For people nothing is replayed of a
    batch that has ended; `muster task logs` has it."""
    title = conclusion.spec.name if conclusion.spec else ""
    view = Session.of(handle.task_id, handle.trace_id, agent=BATCH, title=title)
    if not as_json and (result := await muster.result(handle.task_id)) is not None:
        followed = Followed(await watch(muster, view, _show_nothing), result)
    else:
        followed = await follow(muster, view, as_json=as_json, may_ask=may_ask, owner=owner)
    await write_reports(muster, conclusion.reports, followed.result)
    if followed.result is not None and conclusion.spec is not None:
        await conclude(muster, followed.view, followed.result, conclusion)
    return exit_code_after(followed)


def _show_nothing(_view: Session, _entry: Entry) -> None: ...


async def _list(as_json: bool) -> None:
    async with open_records(load_settings()) as muster:
        live = [root async for root in records_of(muster.transport.live_roots, shards=False)]
        latest = await muster.tasks(limit=LATEST)
        batches = {task.task_id: task for task in (*latest, *live) if task.agent == BATCH}
        rows = sorted(batches.values(), key=lambda task: task.accepted_at_ms, reverse=True)
        print_tasks(rows, now_ms=await muster.transport.now_ms(), as_json=as_json)
        if len(latest) == LATEST:
            note(f"batches that ended are listed as far as they are among the latest {LATEST:,} roots")


async def _report(words: str, form: str) -> None:
    require_form(form)
    async with open_records(load_settings()) as muster:
        record = await find_task(muster, words)
        whole = await muster.batches.report(record.task_id)
        result = await muster.result(record.task_id)
    assert result is not None  # there is a report of it
    data(formed(form, whole, result).rstrip("\n"))


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
