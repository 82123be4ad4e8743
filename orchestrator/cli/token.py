"""`muster token`: who may call the HTTP API."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from transport.audit import Decision

from ..api.tokens import Role, Token, TokenFile
from ..settings import Settings, load_settings
from .console import data, note
from .fleet import open_records
from .person import person

app = typer.Typer()


def token_file(settings: Settings) -> TokenFile:
    return TokenFile(settings.state_dir / "api-tokens.json")


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
    tokens = token_file(load_settings())
    made, secret = tokens.draft(name, role, tenant, read_only=read_only)
    asyncio.run(_note("token", made))
    tokens.add(made)
    data(secret)
    note("this is the only time that it is shown; people sign in with it at /console of `muster serve`")


@app.command("list")
def list_tokens() -> None:
    """List names, roles and tenants."""
    for one in token_file(load_settings()).all():
        data("\t".join((one.name, one.role, one.tenant, *(["read-only"] if one.read_only else []))))


@app.command("revoke")
def revoke(name: Annotated[str, typer.Argument(metavar="NAME", help="Whose token it is.")]) -> None:
    """Take a token back; servers refuse it from the next call on."""
    tokens = token_file(load_settings())
    asyncio.run(_note("revoke", tokens.named(name)))
    tokens.revoke(name)


async def _note(action: str, token: Token) -> None:
    """Before the deed: no token without an entry in the audit log."""
    async with open_records(load_settings()) as muster:
        told = {"role": token.role, **({"read_only": "true"} if token.read_only else {})}
        decision = Decision(person(), action, token.name, token.tenant, told)
        await muster.transport.audit.note(decision)
