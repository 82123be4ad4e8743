"""Many patches of one base become one line of commits. All on objects: no work tree, no order but the caller's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from .changes import FileChange
from .errors import PatchRefused
from .footprint import Footprint
from .mirror import Mirror
from .patch import apply_to_index
from .scratch import Scratch, scratch


@dataclass(frozen=True, slots=True)
class Changeset:
    """One patch against the base. `files` must name every path that `diff` touches (both sides of a rename)."""

    key: str
    diff: bytes
    title: str
    files: tuple[FileChange, ...]

    @property
    def paths(self) -> frozenset[str]:
        return frozenset(path for change in self.files for path in change.paths)


@dataclass(frozen=True, slots=True)
class Collision:
    """A patch that was set aside. `other_keys` are applied patches that changed `paths` differently (none: the patch
    does not apply to the base itself). `detail` is git's account of it. `tree`, if any, is the merge with both sides
    between conflict markers, for whoever resolves it.
    """

    key: str
    other_keys: tuple[str, ...]
    paths: tuple[str, ...]
    detail: str
    tree: str | None = None


@dataclass(frozen=True, slots=True)
class Merged:
    commit: str
    applied: tuple[str, ...]
    collisions: tuple[Collision, ...]


@dataclass(slots=True)
class _Line:
    """The commits made so far, and who changed what."""

    own: Scratch
    base: str
    tip: str
    tree: str  # of the tip, and in the index of `own`
    dates: dict[str, str]
    footprint: Footprint = field(default_factory=Footprint)
    as_sent: dict[str, str] = field(default_factory=dict[str, str])  # commits that hold one patch as it came: its key
    applied: list[str] = field(default_factory=list[str])
    collisions: list[Collision] = field(default_factory=list[Collision])


async def merge_patches(mirror: Mirror, base_commit: str, patches: Sequence[Changeset]) -> Merged:
    """Apply `patches` one after the other onto `base_commit`; each becomes a commit, or a collision.

    The same base and patches in the same order give the same commit id, on any machine and day: names and dates
    are fixed, the dates to the base's. Patches that share no path are applied as they are, which is exact; others
    are merged 3-way against the base. An empty patch counts as applied and makes no commit. `PatchRefused` when a
    diff touches what its `files` do not name.
    """
    base = await mirror.resolve(base_commit)
    with scratch(write_to=mirror.objects) as own:
        date = f"@{(await own.git('log', '-1', '--format=%ct', base)).line} +0000"
        tree = (await own.git("rev-parse", f"{base}^{{tree}}")).line
        line = _Line(own, base, base, tree, {"GIT_AUTHOR_DATE": date, "GIT_COMMITTER_DATE": date})
        await own.git("read-tree", base)
        for changeset in patches:
            await _take(line, changeset)
        await _refuse_undeclared(line, {changeset.key: changeset for changeset in patches})
    return Merged(line.tip, tuple(line.applied), tuple(line.collisions))


async def _take(line: _Line, changeset: Changeset) -> None:
    if changeset.diff:
        collision = await (_merge if line.footprint.owners_of(changeset.paths) else _apply)(line, changeset)
        if collision is not None:
            line.collisions.append(collision)
            return
        line.footprint.add(changeset.key, changeset.paths)
    line.applied.append(changeset.key)


async def _apply(line: _Line, changeset: Changeset) -> Collision | None:
    """Every file that the patch touches is still as in the base, so it fits exactly or never will."""
    try:
        await apply_to_index(line.own, changeset.diff)
    except PatchRefused as e:
        return Collision(changeset.key, (), tuple(sorted(changeset.paths)), str(e))
    line.tree = (await line.own.git("write-tree")).line
    line.tip = await _commit(line, line.tree, line.tip, changeset)
    line.as_sent[line.tip] = changeset.key
    return None


async def _merge(line: _Line, changeset: Changeset) -> Collision | None:
    """By 3-way merge, never by shifted context: a hunk that drifts to a similar place would be wrong silently."""
    try:
        theirs = await _commit_on_base(line, changeset)
    except PatchRefused as e:
        return Collision(changeset.key, (), tuple(sorted(changeset.paths)), str(e))
    merge = ("merge-tree", "--write-tree", "-z", "--name-only", "--messages", line.tip, theirs)
    merged = await line.own.git(*merge, ok=(0, 1))
    tree = merged.fields[0].decode()
    if merged.exit_code:
        return _collision(line, changeset, tree, merged.fields[1:])
    await line.own.git("read-tree", tree)
    if tree != line.tree:  # an earlier patch may have made the same change
        line.tip, line.tree = await _commit(line, tree, line.tip, changeset), tree
    return None


def _collision(line: _Line, changeset: Changeset, tree: str, fields: list[bytes]) -> Collision:
    paths, detail = conflicts_in(fields)
    # A conflict around a rename may be told under a name that no patch has: then all who share a path are in it.
    owners = line.footprint.owners_of(paths) or line.footprint.owners_of(changeset.paths)
    return Collision(changeset.key, owners, paths, detail, tree)


def conflicts_in(fields: list[bytes]) -> tuple[tuple[str, ...], str]:
    """What `git merge-tree -z` says after the tree: the paths in conflict, and its account of them.

    `fields`: those paths, an empty one, then messages: a count, so many paths, a type, the text.
    """
    end = fields.index(b"")
    paths = {name.decode("utf-8", "backslashreplace") for name in fields[:end]}
    messages: list[str] = []
    rest = iter(fields[end + 1 :])
    for count in rest:
        about = [next(rest) for _ in range(int(count))]
        kind, text = next(rest), next(rest)
        if kind.startswith(b"CONFLICT") and about:
            messages.append(text.decode("utf-8", "backslashreplace").strip())
    return tuple(sorted(paths)), "\n".join(messages)


async def _commit_on_base(line: _Line, changeset: Changeset) -> str:
    with scratch(write_to=line.own.objects) as aside:
        await aside.git("read-tree", line.base)
        await apply_to_index(aside, changeset.diff)
        commit = await _commit(line, (await aside.git("write-tree")).line, line.base, changeset)
    line.as_sent[commit] = changeset.key
    return commit


async def _commit(line: _Line, tree: str, parent: str, changeset: Changeset) -> str:
    title, key = (" ".join(text.replace("\0", " ").split()) for text in (changeset.title, changeset.key))
    message = f"{title or key}\n\nMuster-Shard: {key}\n".encode("utf-8", "backslashreplace")
    commit = ("commit-tree", tree, "-p", parent)
    return (await line.own.git(*commit, stdin=message, env=line.dates)).line


async def _refuse_undeclared(line: _Line, changesets: dict[str, Changeset]) -> None:
    """Collisions are found by the declared paths, so a patch that hides one would merge unseen."""
    compare = ("diff-tree", "--stdin", "-r", "-z", "--no-renames", "--name-only")
    ids = "".join(f"{commit}\n" for commit in line.as_sent).encode()
    listed = (await line.own.git(*compare, stdin=ids)).fields
    changeset = None
    for text in (entry.decode("utf-8", "backslashreplace") for entry in listed):
        if text in line.as_sent:
            changeset = changesets[line.as_sent[text]]
        elif changeset is not None and text not in changeset.paths:
            raise PatchRefused(f"The patch {changeset.key} changes {text}, which is not among its files")
