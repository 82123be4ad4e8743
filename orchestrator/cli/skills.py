"""`muster skills`: instructions for agents from outside of their repositories, pinned by hash."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Annotated

import typer

from transport.settings import user_file
from transport.state_folder import private_folder

from ..agent_files import agent_files
from ..errors import BadInput
from ..settings import Settings
from ..skill_pages import is_page, skill_at
from ..skills import Brought, SkillStore, Standing, fetched_skill
from .console import data, note, plain
from .options import JsonLines, writing_settings

SHORT_CHARS = 12
TAKES_IN = "agents would be told something else"

app = typer.Typer()


@app.callback()
def skills() -> None:
    """Give agents skills from outside of their repositories: each is pinned by the hash of its folder."""


@app.command("add")
def add(
    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE",
            help="A folder with a SKILL.md; or the address of a git repository, a SKILL.md or a list (index.json).",
        ),
    ],
    folder: Annotated[
        str, typer.Option(metavar="PATH", help="Of a repository or list: the skill's folder in it.")
    ] = "",
    commit: Annotated[
        str, typer.Option(metavar="COMMIT", help="Of a repository: a commit, branch or tag [default: HEAD].")
    ] = "",
) -> None:
    """Bring a skill to the workers of this machine, and pin it as it is now. Again: as it is by then.

    Read it first: what it says is your word to every agent here.
    """
    settings, store = writing_settings(TAKES_IN), _store()
    brought = _brought(source, folder, commit, settings, store)
    key, pin, before = store.add(brought, agent_files().skill_name)
    changed = "" if before is None else ", as before" if before == pin else f", was {before.sha256[:SHORT_CHARS]}"
    note(f"pinned: {key} at {pin.sha256[:SHORT_CHARS]}{changed} ({len(brought.entries)} files in {store.folder / key})")


@app.command("list")
def list_skills(as_json: JsonLines = False) -> None:
    """List the skills that are pinned, and those that are not."""
    for one in _store().all():
        _tell(one, as_json=as_json)


@app.command("verify")
def verify() -> None:
    """Check that each skill is what was pinned; exit code 1 if one is not. Workers check the same at every use."""
    found = list(_store().all())
    for one in (each for each in found if each.fault):
        note(f"{one.key} {one.fault}")
    note(f"{sum(not each.fault for each in found)} of {len(found)} skills are as they were pinned")
    raise typer.Exit(1 if any(each.fault for each in found) else 0)


@app.command("remove")
def remove(key: Annotated[str, typer.Argument(metavar="SKILL", help="As `list` shows it.")]) -> None:
    """Pin a skill no longer. Its folder goes, too, unless it was written there."""
    writing_settings(TAKES_IN)
    _store().remove(key)
    note(f"removed: {key}")


def _store() -> SkillStore:
    return SkillStore(user_file().expanduser().absolute().parent)


def _brought(source: str, folder: str, commit: str, settings: Settings, store: SkillStore) -> Brought:
    if is_page(source):
        if commit:
            raise BadInput("--commit is of repositories", hint="leave it out: what is there now is pinned")
        page = asyncio.run(skill_at(source, folder))
        return Brought(page.entries, page.source)
    if "://" in source or source.startswith("git@"):
        cache = private_folder(settings.state_dir) / "cache"
        return asyncio.run(fetched_skill(source, folder, commit, cache_dir=cache, forges=dict(settings.forges)))
    if folder or commit:
        raise BadInput("--folder and --commit are of repositories", hint="name the skill's own folder as SOURCE")
    return store.found_at(Path(source).expanduser())


def _tell(one: Standing, *, as_json: bool) -> None:
    pin = one.pin.model_dump() if one.pin else {}
    if as_json:
        data(json.dumps({"skill": one.key, **pin, "fault": one.fault}))
        return
    hash_shown = one.pin.sha256[:SHORT_CHARS] if one.pin else "-"
    data(plain(f"{one.key}\t{hash_shown}\t{one.fault or 'as pinned'}\t{one.pin.source if one.pin else ''}"))
