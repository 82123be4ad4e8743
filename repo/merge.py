"""Many patches of one base become one line of commits. All on objects: no work tree, no order but the caller's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from .errors import PatchRefused
from .fast_import import NewCommit, make_commits
from .footprint import Footprint
from .merge_entities import united
from .merge_sides import Changeset, Side, Sides, message_of, sides_of
from .merge_tree import TreeMerge, merge_trees
from .mirror import Mirror
from .scratch import Scratch, scratch

# How a patch came in: exactly as it is; by lines, 3-way; by functions, classes and imports; or resolved by somebody.
Level = Literal["as it is", "lines", "entities", "resolved"]


@dataclass(frozen=True, slots=True)
class Landed:
    """`commit` is the tip with it; that of the patch before when it is empty, or changes nothing any more."""

    key: str
    commit: str
    level: Level = "as it is"


@dataclass(frozen=True, slots=True)
class Collision:
    """A patch that was set aside. `other_keys` are applied patches that changed `paths` differently (none: the patch
    does not apply to the base itself, or changes more than it says). `detail` is git's account of it. `tree`, if any,
    is the merge with both sides between conflict markers, for whoever resolves it.
    """

    key: str
    other_keys: tuple[str, ...]
    paths: tuple[str, ...]
    detail: str
    tree: str | None = None


@dataclass(frozen=True, slots=True)
class Merged:
    commit: str
    landed: tuple[Landed, ...]
    collisions: tuple[Collision, ...]


@dataclass(slots=True)
class _Line:
    """The commits made so far, and who changed what. `waiting`: they fit as they are, and are committed together."""

    own: Scratch
    sides: Sides
    tip: str
    footprint: Footprint = field(default_factory=Footprint)
    waiting: list[tuple[Changeset, Side]] = field(default_factory=list[tuple[Changeset, Side]])
    landed: list[Landed] = field(default_factory=list[Landed])
    collisions: list[Collision] = field(default_factory=list[Collision])


async def merge_patches(
    mirror: Mirror, base_commit: str, patches: Sequence[Changeset], *, sides: Sides | None = None
) -> Merged:
    """Apply `patches` one after the other onto `base_commit`; each becomes a commit, or a collision.

    The same base and patches in the same order give the same commit id, on any machine and day: names and dates
    are fixed, the dates to the base's. Patches that share no path are applied as they are, which is exact; others
    are merged 3-way against the base, and what is in conflict by lines by its entities. An empty patch counts as
    applied and makes no commit. `sides`: what `sides_of` has made of these patches (and maybe more) before.
    """
    sides = sides or await sides_of(mirror, base_commit, patches)
    with scratch(write_to=mirror.objects) as own:
        line = _Line(own, sides, sides.base)
        for changeset in patches:
            await _take(line, changeset)
        await _commit_waiting(line)
    return Merged(line.tip, tuple(line.landed), tuple(line.collisions))


async def _take(line: _Line, changeset: Changeset) -> None:
    side = line.sides.of[changeset.key]
    if isinstance(side, PatchRefused):
        paths = tuple(sorted(changeset.paths))
        line.collisions.append(Collision(changeset.key, (), paths, str(side)))
    elif side.entries and line.footprint.owners_of(changeset.paths):
        await _commit_waiting(line)
        await _merge(line, changeset, side)
    else:
        line.waiting.append((changeset, side))
        line.footprint.add(changeset.key, changeset.paths)


async def _commit_waiting(line: _Line) -> None:
    """Every file that these touch is still as in the base, so that each fits exactly."""
    new = [NewCommit(message_of(changeset), side.entries) for changeset, side in line.waiting if side.entries]
    commits = iter(await make_commits(line.own, line.tip, new, date=line.sides.date, line=True))
    for changeset, side in line.waiting:
        line.tip = next(commits) if side.entries else line.tip
        line.landed.append(Landed(changeset.key, line.tip))
    line.waiting.clear()


async def _merge(line: _Line, changeset: Changeset, side: Side) -> None:
    """By 3-way merge, never by shifted context: a hunk that drifts to a similar place would be wrong silently."""
    merged = await merge_trees(line.own, line.tip, side.commit)
    tree = merged.tree if merged.clean else await united(line.own, merged)
    if tree is None:
        line.collisions.append(_collision(line, changeset, merged))
        return
    if tree != (await line.own.git("rev-parse", f"{line.tip}^{{tree}}")).line:  # else an earlier one did the same
        line.tip = await commit_tree(line.own, line.tip, tree, message_of(changeset), line.sides.date)
    line.landed.append(Landed(changeset.key, line.tip, "lines" if merged.clean else "entities"))
    line.footprint.add(changeset.key, changeset.paths)


def _collision(line: _Line, changeset: Changeset, merged: TreeMerge) -> Collision:
    # A conflict around a rename may be told under a name that no patch has: then all who share a path are in it.
    owners = line.footprint.owners_of(merged.paths) or line.footprint.owners_of(changeset.paths)
    return Collision(changeset.key, owners, merged.paths, merged.detail, merged.tree)


async def commit_tree(own: Scratch, parent: str, tree: str, message: bytes, date: str) -> str:
    dates = {"GIT_AUTHOR_DATE": f"@{date}", "GIT_COMMITTER_DATE": f"@{date}"}
    return (await own.git("commit-tree", tree, "-p", parent, stdin=message, env=dates)).line
