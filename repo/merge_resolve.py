"""A conflict that somebody resolves: a tree with both sides between markers goes out, one without them comes back."""

from __future__ import annotations

from dataclasses import dataclass, replace

from .changes import NO_MODE
from .content import REGULAR_FILES, file_at
from .errors import PatchRefused
from .git import GIB
from .merge import Landed, Merged, commit_tree
from .merge_attributes import guarded_on_both
from .merge_entities import BY_CONTENT
from .merge_sides import Changeset, message_of
from .merge_tree import OURS, THEIRS, Allowed, TreeMerge, Version, changed_paths, merge_trees, strayed
from .mirror import Mirror
from .patch import apply_to_tree
from .scratch import scratch
from .wording import as_text, is_utf8

MARKS = (b"<<<<<<< ", b"||||||| ", b">>>>>>> ")


@dataclass(frozen=True, slots=True)
class Conflict:
    """`tree` has, at `paths`, what landed, what both started from and what did not fit, between git's markers."""

    tree: str
    paths: tuple[str, ...]
    versions: dict[str, dict[int, Version]]


async def open_conflict(mirror: Mirror, tip: str, theirs: str, allowed: Allowed | None = None) -> Conflict | None:
    """Of two commits. None where there is nothing between markers: what one side removed, renamed or made binary.
    `PatchRefused` where what is in conflict, or beside it, is more than the author of `theirs` may edit (`allowed`):
    what an agent makes of it would be theirs."""
    with scratch(write_to=mirror.objects) as own:
        merged = await merge_trees(own, tip, theirs)
        base = (await own.git("merge-base", tip, theirs)).line
        if await guarded_on_both(own, base, tip, theirs):
            return None  # both sides' lines would be in it, and no marker around them
        changed = await changed_paths(own, tip, merged.tree)
        if astray := await strayed(own, base, tip, changed, allowed):
            raise PatchRefused(astray.detail)
    if merged.kinds != BY_CONTENT or not all(map(is_utf8, merged.stages)):
        return None
    if any(version.mode.encode() not in REGULAR_FILES for each in merged.stages.values() for version in each.values()):
        return None
    if not all([await _has_marks(mirror, merged.tree, path) for path in merged.paths]):
        return None
    return Conflict(merged.tree, merged.paths, _named(merged))


async def land_resolved(
    mirror: Mirror, merged: Merged, changeset: Changeset, conflict: Conflict, diff: bytes, *, date: str
) -> Merged:
    """With `diff`, which is on top of the conflict's tree. `PatchRefused` says why it is no resolution of it: whoever
    made it may have misunderstood, or lied. That one side alone is right is for a person to say.
    """
    tree = await apply_to_tree(mirror.git_dir, conflict.tree, diff)
    with scratch(write_to=mirror.objects) as own:
        compare = ("diff-tree", "-r", "-z", "--raw", "--no-abbrev", "--no-renames", conflict.tree, tree)
        listed = (await own.git(*compare)).fields
        pairs = zip(listed[::2], listed[1::2], strict=True)
        entries = {as_text(path): about for about, path in pairs}
        for path, about in entries.items():
            _, mode, _, blob, _ = about.decode().split(" ")
            if path not in conflict.paths:
                raise PatchRefused(f"it changes {path}, which is not in conflict")
            if mode == NO_MODE:
                raise PatchRefused(f"it removes {path}")
            if blob in (conflict.versions[path][OURS].id, conflict.versions[path][THEIRS].id):
                raise PatchRefused(f"it keeps one side alone in {path}")
        for path in conflict.paths:
            if await _has_marks(mirror, tree, path):
                raise PatchRefused(f"{path} still has conflict markers")
        message = message_of(changeset, "Muster-Resolved-By: agent")
        commit = await commit_tree(own, merged.commit, tree, message, date)
    return replace(
        merged,
        commit=commit,
        landed=(*merged.landed, Landed(changeset.key, commit, "resolved")),
        collisions=tuple(one for one in merged.collisions if one.key != changeset.key),
    )


async def _has_marks(mirror: Mirror, tree: str, path: str) -> bool:
    content = await file_at(mirror.git_dir, tree, path, max_bytes=GIB) or b""
    return any(line.startswith(MARKS) for line in content.splitlines())


def _named(merged: TreeMerge) -> dict[str, dict[int, Version]]:
    return {path.decode(): versions for path, versions in merged.stages.items()}
