"""The user's repository as the start of some work."""

from __future__ import annotations

from pathlib import Path

from repo.local import LocalRepository, locate
from repo.mirror import Mirror

from .. import starting
from ..project import file as project_file
from ..settings import Settings
from .console import note


async def starting_point(path: Path, *, allow_dirty: bool) -> LocalRepository:
    """As `starting.starting_point`, and what stays behind is said here."""
    return await starting.starting_point(path, allow_dirty=allow_dirty, tell=note)


async def project_defaults(local: LocalRepository, settings: Settings, *, is_trusted: bool) -> project_file.Defaults:
    """As `project_file.project_defaults`, and what is ignored is said here."""
    known = await project_file.project_defaults(local, settings, is_trusted=is_trusted)
    if unused := project_file.unused_keys(known, local.root):
        note(unused)
    return known


async def head_of(folder: Path) -> str:
    """The commit that is checked out there now."""
    return await Mirror((await locate(folder)).git_dir).resolve("HEAD")
