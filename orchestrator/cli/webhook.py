"""`muster webhook`: who outside hears what happens, and what has not arrived there."""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import asdict
from typing import Annotated
from uuid import uuid4

import typer
from rich.text import Text

from envelope.errors import ExitCode
from envelope.redaction import redact
from transport.audit import Decision
from transport.notices import Notice

from ..errors import BadInput, near_miss
from ..settings import load_settings
from ..words import counted
from .console import data, note, people, plain, warn
from .fleet import open_records
from .options import JsonLines
from .person import person

app = typer.Typer()

MOST = 1_000


@app.callback()
def webhook() -> None:
    """See who outside hears what happens, and what has not arrived there."""


@app.command("list")
def list_webhooks(as_json: JsonLines = False) -> None:
    """List the webhooks, and the notices that wait or were given up."""
    asyncio.run(_list(as_json))


@app.command("test")
def test(name: Annotated[str, typer.Argument(metavar="NAME", help="Of the settings' table [webhooks.NAME].")]) -> None:
    """Send a signed `ping` from here, once. Exit code 1 when it does not arrive."""
    raise typer.Exit(asyncio.run(_test(name)))


@app.command("retry")
def retry(
    notices: Annotated[list[str] | None, typer.Argument(metavar="[NOTICE]…", help="Ids, as `list` shows them.")] = None,
    every: Annotated[bool, typer.Option("--all", help="Every notice that was given up.")] = False,
) -> None:
    """Try again to deliver what was given up, under the same id."""
    asyncio.run(_retry(notices or [], every))


async def _list(as_json: bool) -> None:
    hooks = load_settings().webhooks
    waiting, given_up = await _notices()
    rows = [("waits", one) for one in waiting] + [("given up", one) for one in given_up]
    if as_json:
        for name, hook in hooks.items():
            data(json.dumps({"webhook": name, **hook.model_dump(mode="json"), "url": redact(hook.url)}))
        for state, one in rows:
            data(json.dumps({**asdict(one), "state": state, "body": json.loads(one.body or "null")}))
        return
    for name, hook in hooks.items():
        _line((name, "bold"), (plain(redact(hook.url)), ""), (", ".join(hook.events), "dim"))
    for state, one in rows:
        why = f"{state} after {counted(one.tries, 'try')}: {plain(one.error)}" if one.error else state
        _line((one.id, ""), (f"{one.event} to {one.hook}", ""), (why, "yellow" if one.error else "dim"))
    if not hooks and not rows:
        _line(("no webhooks: docs/webhooks.md tells how to set one up", "dim"))


def _line(*parts: tuple[str, str]) -> None:
    """Never wrapped: an address and an id are there to be copied."""
    people().print(Text("  ").join(Text(text, style=style) for text, style in parts), soft_wrap=True)


async def _notices() -> tuple[list[Notice], list[Notice]]:
    async with open_records(load_settings()) as muster:
        cells = muster.transport.notices
        waiting = [one for cell in cells for one in await cell.waiting(MOST)]
        return waiting, [one for cell in cells for one in await cell.given_up(MOST)]


async def _test(name: str) -> ExitCode:
    from ..webhooks.config import Told
    from ..webhooks.sending import Failed, send  # its HTTP client takes longer to load than a command may
    from ..webhooks.telling import body_of

    settings = load_settings()
    hook = settings.webhooks.get(name)
    if hook is None:
        raise BadInput(f"there is no webhook {name!r}", hint=near_miss(name, settings.webhooks))
    body = body_of(Told.PING, {"webhook": name}, at_ms=time.time_ns() // 1_000_000)
    outcome = await send(hook, f"msg_{uuid4().hex}", body, timeout_s=settings.webhook_timeout_s)
    if isinstance(outcome, Failed):
        warn(f"the ping did not arrive: {outcome.why}")
        return ExitCode.NOT_ACCEPTABLE
    note(f"the ping arrived: {outcome.status}")
    return ExitCode.OK


async def _retry(ids: list[str], every: bool) -> None:
    if every == bool(ids):
        raise BadInput("name the notices, or say --all", hint="see them with: muster webhook list")
    async with open_records(load_settings()) as muster:
        await muster.transport.audit.note(Decision(person(), "retry", " ".join(ids[:10]) or "all notices"))
        cells = muster.transport.notices
        again = sum([await cell.retry(ids or [one.id for one in await cell.given_up(MOST)]) for cell in cells])
    note(f"{counted(again, 'notice')} to be sent again")
