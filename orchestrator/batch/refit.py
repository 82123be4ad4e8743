"""A patch that was made for another commit: it counts where the files that it changes are still what they were."""

from __future__ import annotations

from collections.abc import Sequence

from repo.content import ids_at
from repo.errors import PatchRefused
from repo.mirror import Mirror

from ..gating.diff import FilePatch

NEW = "0"  # of an id: zeros stand for a file that was not there


async def refuse_other_files(mirror: Mirror, tree: str, parts: Sequence[FilePatch]) -> None:
    """`PatchRefused` where `tree` has other content in a file that a diff of these `parts` changes. git would look for
    a similar place there, and take one that is wrong without a word."""
    before = [(part.old_path or part.path, id) for part in parts if (id := part.starts_from) is not None]
    known = [(path, id) for path, id in before if id.strip(NEW)]
    if odd := next((path for path, _ in known if "\n" in path), None):
        raise PatchRefused(f"{odd!r} is no name to be looked for")
    found = await ids_at(mirror.git_dir, tree, [path for path, _ in known])
    for (path, id), now in zip(known, found, strict=True):
        if now != id:
            raise PatchRefused(f"{path} is no longer what the change was made for")
