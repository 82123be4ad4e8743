"""`muster config`: the settings, and where each comes from."""

from __future__ import annotations

import json
import os
import tomllib
from typing import Annotated

import typer

from envelope.redaction import redact_value
from transport.settings import user_file

from ..settings import load_settings
from .console import data

app = typer.Typer()


@app.callback()
def config() -> None:
    """See the settings, and where each comes from."""


@app.command("show")
def show(
    origin: Annotated[bool, typer.Option("--origin", help="Also tell where each comes from.")] = False,
) -> None:
    """Print the settings as JSON, without the passwords in them."""
    settings = load_settings()
    values = redact_value(settings.model_dump(mode="json"))
    if origin:
        data(json.dumps({name: {"value": value, "origin": _origin(name)} for name, value in values.items()}, indent=2))
    else:
        data(json.dumps(values, indent=2))


def _origin(name: str) -> str:
    variable = f"MUSTER_{name.upper()}"
    if variable in os.environ:
        return variable
    path = user_file()
    if path.exists() and name in tomllib.loads(path.read_text()):
        return str(path)
    return "default"
