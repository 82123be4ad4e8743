"""`muster ask`: see and answer what tasks ask people."""

from __future__ import annotations

import asyncio
import json
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from ..asks import OpenAsk, ask_to_answer, find_ask, reply_to
from ..errors import BadInput
from ..settings import Settings, load_settings
from ..units import duration
from ..words import short
from .asking import note_shown, show_ask, shown_of, subject
from .completing import ask_ids
from .console import data, interactive, note, people, plain
from .fleet import open_fleet, open_records
from .known import looked_up
from .options import JsonLines
from .person import person

app = typer.Typer()

AskId = Annotated[str, typer.Argument(metavar="ASK", autocompletion=ask_ids, help="An ask's id, or its end.")]


@app.command("list")
def list_asks(as_json: JsonLines = False) -> None:
    """List what tasks ask people now."""
    asyncio.run(_list(as_json))


@app.command("show")
def show(ask: AskId, as_json: JsonLines = False) -> None:
    """Show an ask: the exact command or change, and how to answer it."""
    asyncio.run(_show(ask, as_json))


@app.command("answer")
def answer(
    ask: AskId,
    choice: Annotated[
        str, typer.Argument(metavar="[once|always|reject]", help="To a permission; to a plan yes or no.")
    ] = "",
    message: Annotated[
        str, typer.Option(metavar="TEXT", help="With reject: what to do instead; the task goes on.")
    ] = "",
    say: Annotated[
        list[str] | None, typer.Option(metavar="TEXT", help="To a question, once for each: labels, or own words.")
    ] = None,
) -> None:
    """Answer an ask; its task goes on. A plain reject ends the task, one with --message tells its agent.

    always: from now on, too, for the session, its trace, and later goals of the same project on this machine.
    """
    asyncio.run(_answer(ask, choice, message, say or []))


async def _list(as_json: bool) -> None:
    settings = load_settings()
    async with open_records(settings) as muster:
        asks, now_ms = await muster.asks(), await muster.transport.now_ms()
    note_shown(settings.state_dir, asks)
    if as_json:
        for one in asks:
            data(_json(one))
        return
    table = Table.grid(padding=(0, 2))
    for one in asks:
        left_ms = one.ask.until_ms - now_ms
        table.add_row(
            Text(one.ask.ask_id, style="bold"),
            Text(plain(subject(one.ask))),
            f"{one.task.agent} {short(one.task.task_id)}",
            Text(f"{duration(max(0, left_ms))} left" if one.ask.until_ms else "", style="dim"),
        )
    people().print(table if table.row_count else Text("no open asks", style="dim"))


async def _show(words: str, as_json: bool) -> None:
    settings = load_settings()
    async with open_records(settings) as muster:
        one = await find_ask(muster.transport, words)
    if as_json:
        note_shown(settings.state_dir, [one])
        data(_json(one))
        return
    show_ask(one, settings.state_dir)


async def _answer(words: str, choice: str, message: str, says: list[str]) -> None:
    settings = load_settings()
    one = await looked_up(settings, lambda muster: ask_to_answer(muster.transport, words))
    reply = reply_to(one.ask, choice, message=message, says=says, task_id=one.task.task_id)
    if reply.choice != "reject" and one.has_text:
        _require_shown(settings, one)
    async with open_fleet(settings) as muster:
        await muster.reply(one, reply, by=person())
    note(f"its task goes on; see it with: muster task watch {one.task.task_id}")


def _require_shown(settings: Settings, one: OpenAsk) -> None:
    """A yes is to what was shown here. Where nothing was, it is shown now: at a terminal before the yes counts."""
    shown = shown_of(settings.state_dir, one.ask.ask_id)
    if shown and shown != one.ask.digest():
        what = "the question is another than the one that you were shown"
        raise BadInput(what, hint=f"see it again: muster ask show {one.ask.ask_id}")
    if not shown:
        show_ask(one, settings.state_dir)
        if interactive():
            typer.confirm("is that what you answer?", abort=True, err=True)


def _json(one: OpenAsk) -> str:
    known = one.ask.model_dump(mode="json", exclude={"kind"})
    known["asked"] = one.ask.digest() if one.has_text else ""
    return json.dumps({**known, "task_id": one.task.task_id, "trace_id": one.task.trace_id, "agent": one.task.agent})
