"""`muster config`: the settings, and where each comes from."""

from __future__ import annotations

import asyncio
import json
import os
import tomllib
from pathlib import Path
from typing import Annotated, Any

import typer

from envelope.redaction import redact_value
from repo.errors import CommitMissing, RepositoryMissing
from repo.local import describe
from transport.settings import user_file

from ..project.text import NAME
from ..settings import Settings, load_settings
from ..trust import TrustStore, trusted_digest
from .console import data
from .repository import project_defaults

app = typer.Typer()


@app.callback()
def config() -> None:
    """See the settings, and where each comes from."""


@app.command("show")
def show(
    origin: Annotated[bool, typer.Option("--origin", help="Also tell where each comes from.")] = False,
) -> None:
    """Print the settings as JSON, without the passwords in them; those of a repository as far as they hold here."""
    settings = load_settings()
    projects = asyncio.run(_of_project(settings))
    values = {**redact_value(settings.model_dump(mode="json")), **projects}
    if origin:
        told = {name: NAME if name in projects else _origin(name) for name in values}
        data(json.dumps({name: {"value": value, "origin": told[name]} for name, value in values.items()}, indent=2))
    else:
        data(json.dumps(values, indent=2))


async def _of_project(settings: Settings) -> dict[str, Any]:
    """What the `muster.toml` of the repository here changes for a run."""
    try:
        local = await describe(Path())
    except (RepositoryMissing, CommitMissing):
        return {}
    trusted = await trusted_digest(TrustStore(settings.state_dir), local.root, local.git_dir, local.head)
    known = await project_defaults(local, settings, is_trusted=bool(trusted))
    deadline_ms = settings.deadline_ms if known.deadline_s is None else known.deadline_s * 1000
    said = {
        "default_agent": known.agent or settings.default_agent,
        "model": known.model or settings.model,
        "budget_microusd": settings.budget_microusd if known.budget_microusd is None else known.budget_microusd,
        "deadline_ms": deadline_ms,
    }
    return {name: value for name, value in said.items() if value != getattr(settings, name)}


def _origin(name: str) -> str:
    variable = f"MUSTER_{name.upper()}"
    if variable in os.environ:
        return variable
    path = user_file()
    if path.exists() and name in tomllib.loads(path.read_text()):
        return str(path)
    return "default"
