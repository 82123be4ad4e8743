"""`muster token`: who may call the HTTP API."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from envelope.errors import MusterError
from transport.audit import Decision

from ..api.tokens import Role, Token, Tokens
from ..client import Muster
from ..settings import load_settings
from .console import data, note, warn
from .fleet import open_records
from .person import person

app = typer.Typer()


async def tokens_of(muster: Muster) -> Tokens:
    """With those that a file of an older release, or of a mounted Secret, holds."""
    tokens = Tokens(muster.transport.registry)
    await tokens.take_over(muster.settings.state_dir / "api-tokens.json")
    return tokens


@app.callback()
def token() -> None:
    """Say who may use the console and the HTTP API."""


@app.command("create")
def create(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Who gets it: a person, or a program.")],
    role: Annotated[Role, typer.Option(help="What it may do.")] = Role.VIEWER,
    tenant: Annotated[str, typer.Option(metavar="TENANT", help="Whose tasks it sees; * for all.")] = "default",
    read_only: Annotated[
        bool, typer.Option("--read-only", help="What is submitted with it may only look: for what strangers sent.")
    ] = False,
) -> None:
    """Make a token. It is shown once, on stdout, and only its hash is kept."""
    data(asyncio.run(_create(name, role, tenant, read_only)))
    note("this is the only time that it is shown; people sign in with it at /console of `muster serve`")


@app.command("list")
def list_tokens() -> None:
    """List names, roles and tenants."""
    for one in asyncio.run(_all()):
        data("\t".join((one.name, one.role, one.tenant, *(["read-only"] if one.read_only else []))))


@app.command("revoke")
def revoke(name: Annotated[str, typer.Argument(metavar="NAME", help="Whose token it is.")]) -> None:
    """Take a token back; all servers refuse it from the next call on."""
    asyncio.run(_revoke(name))


async def _create(name: str, role: Role, tenant: str, read_only: bool) -> str:
    async with open_records(load_settings()) as muster:
        tokens = await tokens_of(muster)
        made, secret = await tokens.draft(name, role, tenant, read_only=read_only)
        await _note(muster, "token", made)
        await tokens.add(made)
        return secret


async def _all() -> tuple[Token, ...]:
    async with open_records(load_settings()) as muster:
        return await (await tokens_of(muster)).all()


async def _revoke(name: str) -> None:
    async with open_records(load_settings()) as muster:
        tokens = await tokens_of(muster)
        taken = await tokens.named(name)
        await tokens.revoke(name)
        try:  # what takes rights away waits for nothing
            await _note(muster, "revoke", taken)
        except MusterError as e:
            warn(f"{name!r} is revoked, and that is not in the audit log: {e.message}", e.hint)


async def _note(muster: Muster, action: str, token: Token) -> None:
    """Before a token is made: none is without an entry in the audit log."""
    told = {"role": token.role, **({"read_only": "true"} if token.read_only else {})}
    await muster.transport.audit.note(Decision(person(), action, token.name, token.tenant, told))
