"""A local repository as the start of some work."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from repo.local import LocalRepository, describe

from .errors import BadInput

HERE = Path()  # as in git, the repository that the command is started in
MAX_NAMED = 3  # files in a line
Tell = Callable[[str], object]


async def starting_point(path: Path, *, allow_dirty: bool, tell: Tell) -> LocalRepository:
    """The repository around `path`. Only what is committed travels: changed files are refused, or said to stay behind.

    `BadInput` for a dirty work tree, and for a folder below a repository's root, unless it is where the command was
    started; `RepositoryMissing` and `CommitMissing` for what cannot be worked on.
    """
    local = await describe(path)
    await asyncio.to_thread(_require_root, path, local.root)
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


def _require_root(path: Path, root: Path) -> None:
    """Work is on a whole repository. Who names a part of one would find gate, globs and patch to be of all of it."""
    if path == HERE or path.resolve() == root.resolve():
        return
    part = path.resolve().relative_to(root.resolve())
    hint = f"name the repository itself, {root}; that {part} is meant is for the goal to say, or for a batch's globs"
    raise BadInput(f"{path} is a folder of the repository {root}, and not its root", hint=hint)
