"""`muster dlq`: tasks that nobody could do (dead letters)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from envelope.errors import ExitCode, MusterError
from envelope.messages import TaskResult
from transport.base import DeadLetter
from transport.errors import NotFound
from transport.limits import MAX_DEAD_LETTERS

from ..client import Muster
from ..errors import BadInput
from ..life_lines import life_lines, life_of
from ..settings import load_settings
from ..units import duration
from ..words import counted, short
from .console import data, interactive, note, people, plain, warn
from .find import find_task
from .fleet import open_fleet, open_records
from .known import looked_up
from .options import JsonLines, TaskId
from .person import person
from .request import readable_request, request_lines
from .summary import Line, print_lines

app = typer.Typer()

MIN_CHARS = 4  # of an abbreviated id, as for all tasks

Tasks = Annotated[list[str] | None, typer.Argument(metavar="[TASK]…", help="Ids, or their ends as `dlq list` shows.")]
All = Annotated[bool, typer.Option("--all", help="Every task on the list.")]


@app.command("list")
def list_letters(
    limit: Annotated[int, typer.Option(min=1, max=MAX_DEAD_LETTERS, help="How many, latest first.")] = 20,
    as_json: JsonLines = False,
) -> None:
    """List the tasks that nobody could do, the latest first."""
    asyncio.run(_list(limit, as_json))


@app.command("show")
def show(task: TaskId, as_json: JsonLines = False) -> None:
    """Show why a task is dead: what it was to do, who tried, and how that ended."""
    asyncio.run(_show(task, as_json))


@app.command("requeue")
def requeue(tasks: Tasks = None, every: All = False) -> None:
    """Do dead tasks' work again, as new tasks, whose ids are printed. Twice is once."""
    raise typer.Exit(asyncio.run(_requeue(tasks or [], every)))


@app.command("purge")
def purge(
    tasks: Tasks = None,
    every: All = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Take tasks off the list. What is known of them stays until retention."""
    asyncio.run(_purge(tasks or [], every, yes=yes))


async def _list(limit: int, as_json: bool) -> None:
    async with open_records(load_settings()) as muster:
        letters = await muster.dead_letters(limit=limit)
        now_ms = await muster.transport.now_ms()
    if as_json:
        for letter in letters:
            data(json.dumps(asdict(letter)))
        return
    table = Table.grid(padding=(0, 2))
    for letter in letters:
        age = f"{duration(now_ms - letter.at_ms)} ago"
        cells = (letter.pool, letter.code, plain(letter.why), plain(letter.worker))
        table.add_row(Text(short(letter.task_id), style="bold"), *map(Text, cells), Text(age, style="dim"))
    people().print(table if letters else Text("no dead letters", style="dim"))


async def _show(words: str, as_json: bool) -> None:
    async with open_records(load_settings()) as muster:
        task_id = await _find(muster, words)
        letters = await muster.dead_letters(limit=MAX_DEAD_LETTERS)
        letter = next((one for one in letters if one.task_id == task_id), None)
        try:
            record = await muster.record(task_id)
        except NotFound as e:
            if letter is None:
                raise
            _show_letter(letter, e, as_json=as_json)
            return
        request = await readable_request(muster, task_id)
        told = await life_of(muster, task_id, record.trace_id)
    if as_json:
        head = request.model_dump(mode="json") if request else None
        data(json.dumps({**told.as_json(), "letter": asdict(letter) if letter else None, "request": head}))
        return
    print_lines([*_letter_lines(letter), *request_lines(request), *life_lines(told), *_error_lines(told.life.result)])
    if letter:
        note(f"do its work again: muster dlq requeue {task_id}")


def _show_letter(letter: DeadLetter, gone: NotFound, *, as_json: bool) -> None:
    """The list outlives what is known of its tasks."""
    if as_json:
        data(json.dumps({"letter": asdict(letter)}))
        return
    print_lines(_letter_lines(letter))
    note(f"{gone.message} any more: {gone.hint}")


def _letter_lines(letter: DeadLetter | None) -> Iterator[Line]:
    if letter is None:
        yield "dead", "it is not on the list of dead letters (any more)"
    else:
        yield "dead", f"{letter.code}: {letter.why}"


def _error_lines(result: TaskResult | None) -> Iterator[Line]:
    for error in result.errors if result else ():
        yield "error", f"{error.code}: {error.message}"
        if error.hint:
            yield "", f"hint: {error.hint}"


def _require_choice(words: Sequence[str], every: bool) -> None:
    if every == bool(words):
        raise BadInput("name the tasks, or say --all", hint="see them with: muster dlq list")


async def _requeue(words: list[str], every: bool) -> int:
    _require_choice(words, every)
    settings = load_settings()
    task_ids = await looked_up(settings, lambda muster: _chosen(muster, words, every))
    if not task_ids:
        note("there are no dead letters")
        return ExitCode.OK
    async with open_fleet(settings) as muster:
        failures = [task_id for task_id in task_ids if not await _requeue_one(muster, task_id, may_fail=every)]
    return ExitCode.PARTIAL if failures else ExitCode.OK


async def _requeue_one(muster: Muster, task_id: str, *, may_fail: bool) -> bool:
    """Among all of them, one that cannot be requeued stops no other."""
    try:
        handle = await muster.requeue(task_id, by=person())
    except MusterError as e:
        if not may_fail:
            raise
        warn(e.message, e.hint)
        return False
    note(f"{short(task_id)} is {'already ' if handle.existing else ''}requeued as {handle.task_id}")
    data(handle.task_id)
    return True


async def _purge(words: list[str], every: bool, *, yes: bool) -> None:
    _require_choice(words, every)
    async with open_records(load_settings()) as muster:
        task_ids = await _chosen(muster, words, every)
        if task_ids and not yes:
            _require_yes(len(task_ids))
        note(f"{counted(await muster.purge(task_ids, by=person()), 'dead letter')} taken off the list")


def _require_yes(count: int) -> None:
    if not interactive():
        raise BadInput("nobody can be asked whether to purge", hint="say so with --yes")
    typer.confirm(f"take {counted(count, 'task')} off the list of dead letters?", abort=True, err=True)


async def _chosen(muster: Muster, words: Sequence[str], every: bool) -> list[str]:
    """The ids that a person means, each once."""
    if every:
        return [letter.task_id for letter in await muster.dead_letters(limit=MAX_DEAD_LETTERS)]
    return list(dict.fromkeys([await _find(muster, word) for word in words]))


async def _find(muster: Muster, words: str) -> str:
    """By the end of an id: a letter's first, then any task's, for it may have left the list."""
    letters = await muster.dead_letters(limit=MAX_DEAD_LETTERS)
    found = [letter.task_id for letter in letters if len(words) >= MIN_CHARS and letter.task_id.endswith(words)]
    return found[0] if len(found) == 1 else (await find_task(muster, words)).task_id
