"""A local repository as the start of some work."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from repo.local import LocalRepository, describe

from .errors import BadInput

MAX_NAMED = 3  # files in a line
Tell = Callable[[str], object]


async def starting_point(path: Path, *, allow_dirty: bool, tell: Tell) -> LocalRepository:
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
    if left := (*local.dirty, *local.untracked):
        more = f" and {len(left) - MAX_NAMED} more" if len(left) > MAX_NAMED else ""
        tell(f"not committed in {local.root}, and so no part of this: {', '.join(left[:MAX_NAMED])}{more}")
    return local
