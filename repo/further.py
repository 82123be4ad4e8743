"""The difference between two diffs of one base, and the files on both sides: for whoever has applied the first and is
offered the second."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from .changes import NO_MODE, TreeChange, changes_between, diff_between
from .errors import CommitMissing, OutputTooLarge
from .local import locate
from .patch import MAX_PATCH_BYTES, apply_to_index
from .scratch import Scratch, scratch
from .wording import readable

MAX_SIDES = 50  # files whose texts are read; nobody reviews more in one question
MAX_SIDE_BYTES = 256 * 1024


@dataclass(frozen=True, slots=True)
class Side:
    """A changed file. The texts are None where there is no file; `unread`: it is binary, a link or too large."""

    path: str
    before: str | None
    after: str | None
    unread: bool = False


@dataclass(frozen=True, slots=True)
class Further:
    """`sides`: of the first files; `count`: of how many."""

    diff: bytes
    sides: tuple[Side, ...]
    count: int


async def further(repository: Path, base: str, before: bytes, after: bytes) -> Further:
    """Both are diffs of `base`, a commit that the repository has; an empty one changes nothing.

    Nothing in the repository is written. `CommitMissing` when the base is gone, `PatchRefused`: no such diff.
    """
    place = await locate(repository)
    with scratch(place.objects) as own:
        found = await own.git("cat-file", "-e", f"{base}^{{commit}}", ok=(0, 1, 128))
        if found.exit_code:
            hint = "apply the change where the commit is, or begin a new session"
            raise CommitMissing(f"The repository {place.root} no longer has the commit {base[:12]}", hint=hint)
        old, new = await _tree_with(own, base, before), await _tree_with(own, base, after)
        changes = await changes_between(own, old, new)
        sides = [await _side(own, change) for change in changes[:MAX_SIDES]]
        diff = await diff_between(own, old, new, MAX_PATCH_BYTES) if changes else b""
        return Further(diff, tuple(sides), len(changes))


async def _tree_with(own: Scratch, base: str, diff: bytes) -> str:
    await own.git("read-tree", base)
    if diff:
        await apply_to_index(own, diff)
    return (await own.git("write-tree")).line


async def _side(own: Scratch, change: TreeChange) -> Side:
    path = readable(change.path)
    try:
        before = await _text(own, change.old_mode, change.old_id)
        after = await _text(own, change.mode, change.id)
    except (OutputTooLarge, UnicodeDecodeError):
        return Side(path, None, None, unread=True)
    return Side(path, before, after)


async def _text(own: Scratch, mode: str, blob: str) -> str | None:
    if mode == NO_MODE:
        return None
    if not mode.startswith("100"):  # a link, or another repository
        raise OutputTooLarge("no regular file")
    found = (await own.git("cat-file", "blob", blob, max_stdout_bytes=MAX_SIDE_BYTES)).stdout
    return found.decode()
