"""`muster token`: who may call the HTTP API."""

from __future__ import annotations

from typing import Annotated

import typer

from ..api.tokens import Role, TokenFile
from ..settings import Settings, load_settings
from .console import data, note

app = typer.Typer()


def token_file(settings: Settings) -> TokenFile:
    return TokenFile(settings.state_dir / "api-tokens.json")


@app.callback()
def token() -> None:
    """Say who may call the HTTP API."""


@app.command("create")
def create(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Who gets it: a person, or a program.")],
    role: Annotated[Role, typer.Option(help="What it may do.")] = Role.VIEWER,
    tenant: Annotated[str, typer.Option(metavar="TENANT", help="Whose tasks it sees; * for all.")] = "default",
) -> None:
    """Make a token. It is shown once, on stdout, and only its hash is kept."""
    data(token_file(load_settings()).create(name, role, tenant))
    note("this is the only time that it is shown")


@app.command("list")
def list_tokens() -> None:
    """List names, roles and tenants."""
    for one in token_file(load_settings()).all():
        data(f"{one.name}\t{one.role}\t{one.tenant}")


@app.command("revoke")
def revoke(name: Annotated[str, typer.Argument(metavar="NAME", help="Whose token it is.")]) -> None:
    """Take a token back; servers refuse it from the next call on."""
    token_file(load_settings()).revoke(name)
