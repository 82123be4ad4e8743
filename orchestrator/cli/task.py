"""`muster task`: see, stop and use tasks."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from envelope.lifecycle import TERMINAL
from envelope.messages import TaskResult
from repo.local import apply_diff
from transport.base import TaskRecord

from ..client import Muster
from ..errors import BadInput
from ..life_lines import life_of
from ..resume import why_unproved
from ..session.fold import Session, apply_all
from ..settings import load_settings
from ..submit import DRIVERS, RUN
from .console import data, note
from .find import find_task
from .fleet import open_records
from .follow import follow
from .known import fleet_of, following, records_of
from .lines import details
from .live import json_line
from .options import Json, JsonLines, TaskId, writing_settings
from .outcome import exit_code_after
from .person import person
from .report_forms import Report, Wanted, wanted_reports
from .reports import write_reports
from .show import show_result, show_task
from .slash import OF_SESSIONS, of_session
from .task_list import list_tasks
from .trees import app as trees_app
from .undo import app as undo_app

app = typer.Typer()
app.command("list")(list_tasks)
app.add_typer(undo_app)
app.add_typer(trees_app)


@app.command("show")
def show(task: TaskId, as_json: JsonLines = False) -> None:
    """Show a task's whole life: its attempts and waits, and what it came to."""
    asyncio.run(_show(task, as_json))


@app.command("watch")
def watch(task: TaskId, as_json: Json = False, report: Report = None) -> None:
    """Follow a task to its end. Ctrl-C leaves it running."""
    raise typer.Exit(asyncio.run(_watch(task, as_json, wanted_reports(report))))


@app.command("cancel")
def cancel(
    task: TaskId, reason: Annotated[str, typer.Option(help="Why, for those who read it.")] = "asked for"
) -> None:
    """Stop a task and everything below it."""
    asyncio.run(_cancel(task, reason))


@app.command("replan")
def replan(
    task: TaskId,
    reason: Annotated[
        str, typer.Option(metavar="TEXT", help="What the next plan should know.")
    ] = "a person asked for it",
) -> None:
    """Have the rest of a goal planned again: its steps that are under way are stopped, what is done stays."""
    asyncio.run(_replan(task, reason))


@app.command("prompt")
def prompt(task: TaskId, text: Annotated[str, typer.Argument(help="What to say.")]) -> None:
    """Say something to a task's agent; one that has ended goes on in a new task. /undo and the like are done here."""
    if text.strip() in OF_SESSIONS:
        raise typer.Exit(of_session(text, task))
    asyncio.run(_prompt(task, text))


@app.command("compact")
def compact(task: TaskId) -> None:
    """Have a task's history told in a summary, from which its agent goes on."""
    asyncio.run(_prompt(task, "/compact"))


@app.command("background")
def background(task: TaskId) -> None:
    """Let the agent that waits for a subagent go on without it; it hears of the subagent's end later."""
    asyncio.run(_background(task))


@app.command("diff")
def diff(task: TaskId) -> None:
    """Print a task's change, as git reads it."""
    asyncio.run(_diff(task))


@app.command("apply")
def apply(
    task: TaskId,
    repo: Annotated[Path, typer.Option("--repo", metavar="PATH", help="The repository to change.")] = Path(),
    check: Annotated[bool, typer.Option("--check", help="Only say whether it would fit.")] = False,
) -> None:
    """Apply a task's change to the files here: all of it, or nothing."""
    asyncio.run(_apply(task, repo, check))


@app.command("logs")
def logs(
    task: TaskId,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until it ends.")] = False,
    as_json: Json = False,
) -> None:
    """Tell everything that has happened in a task; of a goal, also in the tasks below it."""
    asyncio.run(_logs(task, follow, as_json))


async def _show(words: str, as_json: bool) -> None:
    async with open_records(load_settings()) as muster:
        record = await find_task(muster, words)
        if as_json:
            data(json.dumps((await life_of(muster, record.task_id, record.trace_id)).as_json()))
        else:
            await show_task(muster, record)


async def _watch(words: str, as_json: bool, reports: tuple[Wanted, ...]) -> int:
    async with following(load_settings(), words) as (muster, record):
        title = (await muster.request(record.task_id)).input.prompt
        view = Session.of(record.task_id, record.trace_id, agent=record.agent, title=title)
        followed = await follow(muster, view, as_json=as_json, may_ask=False, owner=False)
        await write_reports(muster, reports, followed.result)
        if followed.result is not None and not as_json:
            await show_result(muster, followed.view, followed.result)
        return exit_code_after(followed)


async def _cancel(words: str, reason: str) -> None:
    async with following(load_settings(), words) as (muster, record):
        if record.state in TERMINAL:
            raise BadInput(
                f"the task {record.task_id} has ended already: {record.state}",
                hint=f"see what came of it: muster task show {record.task_id}",
            )
        count = await muster.cancel(record.task_id, reason, by=person())
        note(f"{count} task(s) cancelled")


async def _replan(words: str, reason: str) -> None:
    async with fleet_of(load_settings(), words) as (muster, record):
        stopped = await muster.replan(record.task_id, reason, by=person())
        note(f"{len(stopped)} step(s) stopped; what is left is planned again")


async def _prompt(words: str, text: str) -> None:
    async with fleet_of(load_settings(), words) as (muster, record):
        handle = await muster.prompt(record.task_id, text, by=person())
        note("heard before its next turn by:" if handle.existing else "its session goes on in a new task:")
        if not handle.existing and (why := why_unproved(await muster.request(handle.task_id))):
            note(why)
        data(handle.task_id)


async def _background(words: str) -> None:
    async with fleet_of(load_settings(), words) as (muster, record):
        await muster.background(record.task_id)
        note("it goes on in the background; its caller goes on, too, and is told when it has ended")


async def _diff(words: str) -> None:
    async with open_records(load_settings()) as muster:
        record = await find_task(muster, words)
        change = await muster.diff(record.task_id)
    if not change:
        note(f"the task changed nothing; see: muster task show {record.task_id}")
    if sys.stdout.isatty():
        sys.stdout.write(change.decode(errors="replace"))  # for eyes, like all text; a program gets each byte of it
    else:
        sys.stdout.buffer.write(change)
    sys.stdout.flush()


async def _apply(words: str, repository: Path, check: bool) -> None:
    settings = load_settings() if check else writing_settings("the files here would be changed")
    async with open_records(settings) as muster:
        record = await find_task(muster, words)
        change = await muster.diff(record.task_id)
    if not change:
        raise BadInput(f"the task {record.task_id} changed nothing", hint=f"see: muster task show {record.task_id}")
    root = await apply_diff(change, repository, check_only=check)
    note(f"it fits {root}" if check else f"applied to {root}; see it with: git diff")


async def _logs(words: str, to_the_end: bool, as_json: bool) -> None:
    """What is kept; only with `to_the_end` a fleet must run, for nothing new happens without one."""
    async with (following if to_the_end else records_of)(load_settings(), words) as (muster, record):
        is_goal = record.pool == DRIVERS and record.agent == RUN
        view = Session.of(record.task_id, record.trace_id, agent=record.agent, title=record.intent if is_goal else "")
        async for entry in muster.follow(record.trace_id, wait=to_the_end):
            apply_all(view, [entry])
            is_own = entry.message.task_id == record.task_id
            if is_own or is_goal:
                for line in [json_line(entry)] if as_json else details(view, entry):
                    data(line)
            if is_own and isinstance(entry.message, TaskResult):
                return
        if record.state not in TERMINAL:
            await _say_that_it_goes_on(muster, record)


async def _say_that_it_goes_on(muster: Muster, record: TaskRecord) -> None:
    served = record.pool in {card.pool for card in await muster.workers()}
    state = f"the task has not ended, it is {record.state}"
    if served:
        note(f"{state}; go on with: muster task logs --follow {record.task_id}")
    else:
        note(f"{state}, and no live worker serves its pool {record.pool!r}; start the fleet: muster up")
