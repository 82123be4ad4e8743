"""The user's repository as the start of some work."""

from __future__ import annotations

from pathlib import Path

from repo.local import LocalRepository, locate
from repo.mirror import Mirror

from .. import starting
from .console import note


async def starting_point(path: Path, *, allow_dirty: bool) -> LocalRepository:
    """As `starting.starting_point`, and what stays behind is said here."""
    return await starting.starting_point(path, allow_dirty=allow_dirty, tell=note)


async def head_of(folder: Path) -> str:
    """The commit that is checked out there now."""
    return await Mirror((await locate(folder)).git_dir).resolve("HEAD")
