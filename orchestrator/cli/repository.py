"""The user's repository as the start of some work."""

from __future__ import annotations

from pathlib import Path

from repo.local import LocalRepository, describe, locate
from repo.mirror import Mirror

from ..errors import BadInput
from .console import note


async def starting_point(path: Path, *, allow_dirty: bool) -> LocalRepository:
    """The repository around `path`. Only what is committed travels: changed files are refused, or said to stay behind.

    `BadInput` for a dirty work tree; `RepositoryMissing` and `CommitMissing` for what cannot be worked on.
    """
    local = await describe(path)
    if local.dirty and not allow_dirty:
        first, *others = local.dirty
        more = f" and {len(others)} more" if others else ""
        raise BadInput(
            f"{local.root} has changes that are not committed: {first}{more}",
            hint="commit or stash them, or work on the last commit without them: --allow-dirty",
        )
    if left := len(local.dirty) + len(local.untracked):
        note(f"{left} uncommitted file(s) of {local.root} are not part of this")
    return local


async def head_of(folder: Path) -> str:
    """The commit that is checked out there now."""
    return await Mirror((await locate(folder)).git_dir).resolve("HEAD")
