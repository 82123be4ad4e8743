"""`muster trust`: say that a repository's own settings may be followed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from repo.local import LocalRepository, describe
from repo.project import ProjectSettings, project_settings

from ..errors import BadInput
from ..settings import load_settings
from ..trust import Trusted, TrustStore
from ..words import clock
from .console import data, note, people, plain
from .options import JsonLines, writing_settings


def trust(
    path: Annotated[Path, typer.Argument(metavar="[PATH]", help="The repository [default: the one here].")] = Path(),
    listed: Annotated[bool, typer.Option("--list", help="Show what is trusted.")] = False,
    remove: Annotated[bool, typer.Option("--remove", help="Trust it no longer.")] = False,
    as_json: JsonLines = False,
) -> None:
    """Trust what a repository says in .muster, .opencode, .claude and muster.toml, as it is committed now.

    Without this its agents may only do less than Muster's own. Trust ends when anything in there changes.
    """
    store = TrustStore(load_settings().state_dir)
    if listed:
        _print(store.all().values(), as_json=as_json)
        return
    if not remove:
        writing_settings("somebody would be trusted")
    local = asyncio.run(describe(path))
    if remove:
        _remove(store, local)
        return
    settings = asyncio.run(project_settings(local.git_dir, local.head))
    if not settings.digest:
        raise BadInput(
            f"{local.root} has nothing to trust", hint="only .muster, .opencode, .claude and muster.toml are asked for"
        )
    trusted = store.add(local.root, settings.digest)
    _tell(trusted, settings, local, as_json=as_json)


def _remove(store: TrustStore, local: LocalRepository) -> None:
    if not store.remove(local.root):
        raise BadInput(f"{local.root} is not trusted", hint="see what is: muster trust --list")
    note(f"{local.root} is not trusted any more")


def _tell(trusted: Trusted, settings: ProjectSettings, local: LocalRepository, *, as_json: bool) -> None:
    paths = [file.path for file in settings.files]
    if as_json:
        data(json.dumps({**asdict(trusted), "files": paths}))
        return
    note(f"{local.root} is trusted at {local.head[:12]}, with:")
    for path in paths:
        note(f"  {path}")
    if changed := {*local.dirty, *local.untracked} & {*paths}:
        note(f"what is not committed does not count: {', '.join(sorted(changed))}")


def _print(rows: Iterable[Trusted], *, as_json: bool) -> None:
    table = Table.grid(padding=(0, 2))
    for row in rows:
        if as_json:
            data(json.dumps(asdict(row)))
        table.add_row(plain(row.place), row.digest[:19], clock(row.since_ms, day=True))
    if not as_json:
        people().print(table if table.row_count else "nothing is trusted")
