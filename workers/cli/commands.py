"""`muster commands`: the prompts that `muster run /name` knows. Found by its entry point."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from ..commands.local import local_catalogue
from ..project.framing import one_line

app = typer.Typer(no_args_is_help=True)


@app.callback()
def commands() -> None:
    """See the commands that `muster run /name` knows."""


@app.command("list")
def list_commands(
    repo: Annotated[
        Path, typer.Option("--repo", metavar="PATH", help="The repository whose commands are meant.")
    ] = Path(),
    as_json: Annotated[bool, typer.Option("--json", help="JSON Lines, one for each command.")] = False,
) -> None:
    """List the commands, one a line: name, where it is from, what it does. Files that are wrong are told on stderr."""
    found = local_catalogue(repo)
    for card in found.cards():
        typer.echo(
            card.model_dump_json() if as_json else one_line(f"/{card.name}  [{card.source}]  {card.description}")
        )
    for path, why in found.faults.items():
        sys.stderr.write(f"warning: {one_line(path)}: {one_line(why)}\n")
