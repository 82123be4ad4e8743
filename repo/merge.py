"""Many patches of one base become one line of commits. All on objects: no work tree, no order but the caller's."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Literal

from .changes import NO_MODE
from .errors import PatchRefused
from .fast_import import Entry, NewCommit, make_commits
from .footprint import Footprint, Places, seats
from .merge_across import Across
from .merge_attributes import guarded, refusal
from .merge_entities import Reader, Versions, is_by_content, two_meanings, versions_of
from .merge_sides import Changeset, Side, Sides, message_of, sides_of
from .merge_tree import BASE, THEIRS, TreeMerge, Version, changed_paths, merge_trees, strayed, version_at
from .mirror import Mirror
from .scratch import Scratch, scratch
from .wording import as_text

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
    does not apply to the base itself, or changes more than it says). Or they moved a file to where the patch's author
    may not edit. `detail` is git's account of it. `tree`, if any, is the merge with both sides between conflict
    markers, for whoever resolves it.
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
    """The commits made so far, and who changed what. `waiting`: they fit as they are, and are committed together.
    `made`: what the patches so far made of a path; `united`: paths that were put together by their entities, and stay
    so; `guarded`: paths of patches that are not merged by lines (None: nobody has asked yet)."""

    own: Scratch
    reader: Reader
    sides: Sides
    tip: str
    patches: Sequence[Changeset]
    across: Across
    footprint: Footprint = field(default_factory=Footprint)
    places: Places = field(default_factory=Places)
    made: dict[bytes, list[Entry]] = field(default_factory=dict[bytes, list[Entry]])
    united: dict[bytes, Version] = field(default_factory=dict[bytes, Version])
    guarded: frozenset[bytes] | None = None
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
        async with Reader(own) as reader:
            line = _Line(own, reader, sides, sides.base, patches, Across(own, reader, sides.base))
            for changeset in patches:
                await _take(line, changeset)
            await _commit_waiting(line)
    return Merged(line.tip, tuple(line.landed), tuple(line.collisions))


async def _take(line: _Line, changeset: Changeset) -> None:
    side = line.sides.of[changeset.key]
    if isinstance(side, PatchRefused):
        paths = tuple(sorted(changeset.paths))
        line.collisions.append(Collision(changeset.key, (), paths, str(side)))
    elif taken := line.places.seated_by(changeset):
        paths = tuple(sorted({*taken.values(), *(path for seat, path in seats(changeset) if line.places.has(seat))}))
        why = "have one number, are one module, or differ in nothing but their case"
        detail = f"CONFLICT (one place): {', '.join(paths)} {why}"
        line.collisions.append(Collision(changeset.key, tuple(sorted(taken)), paths, detail))
    elif met := await line.across.met(changeset, side):
        line.collisions.append(Collision(changeset.key, (met.key,), met.paths, f"CONFLICT (across files): {met.why}"))
    elif side.entries and (line.footprint.owners_of(changeset.paths) or line.places.met_by(changeset)):
        await _commit_waiting(line)
        await _merge(line, changeset, side)
    else:
        line.waiting.append((changeset, side))
        await _note(line, changeset, side)


async def _note(line: _Line, changeset: Changeset, side: Side) -> None:
    line.footprint.add(changeset.key, changeset.paths)
    line.places.add(changeset)
    await line.across.add(changeset, side)
    for entry in side.entries:
        line.made.setdefault(entry.path, []).append(entry)


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
    if shut := await _guarded(line, side):
        owners = line.footprint.owners_of(shut)
        line.collisions.append(Collision(changeset.key, owners, shut, refusal(shut)))
        return
    merged = await merge_trees(line.own, line.tip, side.commit)
    files = await _to_unite(line, changeset, side, merged)
    tree = merged.tree if files == {} else await line.reader.united(merged.tree, files) if files else None
    by_lines = [one.path for one in side.entries if one.path in line.made and one.path not in (files or {})]
    commits = (line.sides.base, line.tip, side.commit, tree or "")
    wrong = await line.reader.contradicted(commits, by_lines) if tree is not None else []
    if tree is None or wrong:
        line.collisions.append(_collision(line, changeset, merged, wrong or files or {}))
        return
    changed = await changed_paths(line.own, line.tip, tree)
    if astray := await strayed(line.own, line.sides.base, line.tip, changed, changeset.allowed):
        owners = line.footprint.owners_of(astray.paths)
        line.collisions.append(Collision(changeset.key, owners, astray.paths, astray.detail))
        return
    if changed:  # else an earlier one did the same
        line.tip = await commit_tree(line.own, line.tip, tree, message_of(changeset), line.sides.date)
    line.landed.append(Landed(changeset.key, line.tip, "entities" if files else "lines"))
    line.united |= {path: versions[0] for path, versions in (files or {}).items()}
    await _note(line, changeset, side)


async def _guarded(line: _Line, side: Side) -> tuple[str, ...]:
    """The paths that others made something else of, and whose attributes forbid to mix the two."""
    if line.guarded is None:
        paths = {os.fsencode(path) for patch in line.patches for path in patch.paths}
        line.guarded = await guarded(line.own, line.sides.base, paths)
    shut = {one.path for one in side.entries if any(one != other for other in line.made.get(one.path, ()))}
    return tuple(sorted(as_text(path) for path in shut & line.guarded))


async def _to_unite(line: _Line, changeset: Changeset, side: Side, merged: TreeMerge) -> dict[bytes, Versions] | None:
    """What is put together by its entities, with all its versions: files in conflict, and those that were put together
    so before, which makes the outcome the same in any order. None: something in conflict is no such file."""
    files: dict[bytes, Versions] = {}
    if not merged.clean and not is_by_content(merged):
        return None
    own = {entry.path: Version(entry.mode, entry.id) for entry in side.entries}
    for path in {*merged.stages, *(path for path in own if path in line.united)}:
        stages = merged.stages.get(path, {})
        versions = versions_of(stages)
        if path not in line.united and versions is None:
            return None
        base = stages.get(BASE) or line.united[path]
        others = [Version(entry.mode, entry.id) for entry in line.made.get(path, [])]
        in_place = others and path in own and stages.get(THEIRS, own[path]) == own[path]
        if (
            in_place
            and await _is_at_base(line, path, base)
            and all(one.mode != NO_MODE for one in (*others, own[path]))
        ):
            files[path] = [base, *others, own[path]]
        elif versions is not None and len(line.footprint.owners_of(changeset.paths)) == 1 and path not in line.united:
            files[path] = versions  # one side has moved it
        elif not merged.clean or own.get(path, Version(NO_MODE, "")).mode != NO_MODE:
            return None
    return files


async def _is_at_base(line: _Line, path: bytes, version: Version) -> bool:
    return await version_at(line.own, line.sides.base, path) == version


def _collision(line: _Line, changeset: Changeset, merged: TreeMerge, files: Collection[bytes]) -> Collision:
    # A conflict around a rename may be told under a name that no patch has: then all who share a path are in it.
    paths = merged.paths or tuple(sorted(as_text(path) for path in files or line.united))
    owners = line.footprint.owners_of(paths) or line.footprint.owners_of(changeset.paths)
    owners = owners or tuple(sorted(line.places.met_by(changeset)))
    detail = merged.detail or two_meanings(paths)
    return Collision(changeset.key, owners, paths, detail, None if merged.clean else merged.tree)


async def commit_tree(own: Scratch, parent: str, tree: str, message: bytes, date: str) -> str:
    dates = {"GIT_AUTHOR_DATE": f"@{date}", "GIT_COMMITTER_DATE": f"@{date}"}
    return (await own.git("commit-tree", tree, "-p", parent, stdin=message, env=dates)).line
