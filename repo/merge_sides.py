"""Each patch as a commit of its own on the base: what a forecast and a merge both start from."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from .changes import AS_PATCH, COMPARE, NO_MODE, FileChange
from .errors import PatchRefused
from .fast_import import Entry, NewCommit, make_commits
from .footprint import Footprint
from .merge_tree import Allowed
from .mirror import Mirror
from .patch import apply_to_index
from .scratch import Scratch, scratch
from .wording import as_text

# Together they are held twice, and once more in git; above it they are looked at one by one.
MAX_BYTES_TOGETHER = 256 * 1024 * 1024
ABSENT = (NO_MODE, "0" * 40)


@dataclass(frozen=True, slots=True)
class Changeset:
    """One patch against the base. `files` must name every path that `diff` touches (both sides of a rename).
    `allowed`: what whoever made it may edit, which holds for what a merge makes of it, too; None is anything.
    """

    key: str
    diff: bytes
    title: str
    files: tuple[FileChange, ...]
    allowed: Allowed | None = field(default=None, compare=False)

    @property
    def paths(self) -> frozenset[str]:
        return frozenset(path for change in self.files for path in change.paths)

    @property
    def lines(self) -> int:
        return sum((change.added or 0) + (change.removed or 0) for change in self.files)


@dataclass(frozen=True, slots=True)
class Side:
    """A patch on the base: its commit, and the entries that it changes there (none: an empty patch, no commit)."""

    commit: str
    entries: tuple[Entry, ...]


@dataclass(frozen=True, slots=True)
class Sides:
    """`of`: by key; `PatchRefused` for a patch that does not apply to `base`, or touches what its `files` do not name
    (overlaps are found by these). The objects are in the mirror."""

    base: str
    date: str
    of: Mapping[str, Side | PatchRefused]


Found = tuple[Entry, ...] | PatchRefused


@dataclass(slots=True)
class _Making:
    """`at_base`: the entries of the paths that patches name, which are all that the index `few` holds."""

    own: Scratch
    base: str
    at_base: Mapping[bytes, tuple[str, str]]
    few: Path
    found: dict[str, Found] = field(default_factory=dict[str, Found])
    exact: set[str] = field(default_factory=set[str])  # those that were applied to the whole base, alone


async def sides_of(mirror: Mirror, base_commit: str, patches: Sequence[Changeset]) -> Sides:
    """Patches that share no path are applied by one process. What it made of each is then compared with the patch, byte
    for byte; one that differs (made by another git, or not what it says it is) is applied alone.
    """
    base = await mirror.resolve(base_commit)
    with scratch(write_to=mirror.objects) as own:
        date = f"{(await own.git('log', '-1', '--format=%ct', base)).line} +0000"
        at_base = await _entries_at(own, base, patches)
        making = _Making(own, base, at_base, await _index_of(own, at_base))
        for layer in _layers([patch for patch in patches if patch.diff]):
            await _apply_together(making, layer)
        commits = await _commit(making, patches, date)
        strays = await _strays(own, [patch for patch in patches if patch.key not in making.exact], commits)
        for patch in strays:
            await _apply_alone(making, patch)
        commits |= await _commit(making, strays, date)
    return Sides(base, date, {patch.key: _side(making.found.get(patch.key, ()), commits, patch) for patch in patches})


def _side(found: Found, commits: Mapping[str, str], patch: Changeset) -> Side | PatchRefused:
    return found if isinstance(found, PatchRefused) else Side(commits.get(patch.key, ""), found)


async def _entries_at(own: Scratch, base: str, patches: Sequence[Changeset]) -> dict[bytes, tuple[str, str]]:
    wanted = {_bytes(path) for patch in patches for path in patch.paths}
    listed = (await own.git("ls-tree", "-r", "-z", "--full-tree", base)).fields
    entries = (entry.partition(b"\t") for entry in listed)
    return {path: _mode_and_id(about) for about, _, path in entries if path in wanted}


def _mode_and_id(about: bytes) -> tuple[str, str]:
    mode, _, blob = about.decode().split(" ")[:3]
    return mode, blob


def _layers(patches: Sequence[Changeset]) -> Iterator[list[Changeset]]:
    """As few groups as a greedy look finds, in each of which no two patches meet."""
    while patches:
        footprint, layer, rest, size = Footprint(), list[Changeset](), list[Changeset](), 0
        for patch in patches:
            size += len(patch.diff)
            if layer and (size > MAX_BYTES_TOGETHER or footprint.owners_of(patch.paths)):
                size -= len(patch.diff)
                rest.append(patch)
            else:
                footprint.add(patch.key, patch.paths)
                layer.append(patch)
        yield layer
        patches = rest


async def _apply_together(making: _Making, patches: Sequence[Changeset]) -> None:
    """On an index of nothing but paths in patches, so that a large repository costs no more than a small one."""
    own, owner = making.own, {_bytes(path): patch.key for patch in patches for path in patch.paths}
    shutil.copy(making.few, own.index_file)
    try:
        await apply_to_index(own, b"".join(patch.diff for patch in patches))
    except PatchRefused:  # one of them does not fit: halve until it is alone
        if len(patches) == 1:
            await _apply_alone(making, patches[0])
            return
        middle = len(patches) // 2
        await _apply_together(making, patches[:middle])
        await _apply_together(making, patches[middle:])
        return
    changed: dict[str, list[Entry]] = {patch.key: [] for patch in patches}
    after = await _index(own)
    for path in sorted(owner):  # what nobody owns shows when patches are compared
        entry = after.get(path, ABSENT)
        if entry != making.at_base.get(path, ABSENT):
            changed[owner[path]].append(Entry(path, *entry))
    making.found |= {key: tuple(entries) for key, entries in changed.items()}


async def _index_of(own: Scratch, entries: Mapping[bytes, tuple[str, str]]) -> Path:
    told = b"".join(b"%s %s\t%s\0" % (mode.encode(), blob.encode(), path) for path, (mode, blob) in entries.items())
    own.index_file.unlink(missing_ok=True)
    await own.git("update-index", "-z", "--index-info", stdin=told)
    if not own.index_file.exists():  # git writes none for nothing
        await own.git("read-tree", "--empty")
    return own.index_file.rename(own.index_file.with_name("few"))


async def _index(own: Scratch) -> dict[bytes, tuple[str, str]]:
    entries = (entry.partition(b"\t") for entry in (await own.git("ls-files", "--stage", "-z")).fields)
    modes = ((path, about.decode().split(" ")) for about, _, path in entries)
    return {path: (mode, blob) for path, (mode, blob, _) in modes}


async def _apply_alone(making: _Making, patch: Changeset) -> None:
    """To the whole base: what this makes is what the patch means."""
    own = making.own
    making.exact.add(patch.key)
    await own.git("read-tree", making.base)
    try:
        await apply_to_index(own, patch.diff)
    except PatchRefused as e:
        making.found[patch.key] = e
        return
    listed = (await own.git("diff-index", "--cached", "--raw", "-z", "--no-renames", "--no-abbrev", making.base)).fields
    entries: list[Entry] = []
    for about, path in zip(listed[::2], listed[1::2], strict=True):
        if (named := as_text(path)) not in patch.paths:
            making.found[patch.key] = PatchRefused(f"The patch changes {named}, which is not among its files")
            return
        _, mode, _, blob, _ = about.decode().removeprefix(":").split(" ")
        entries.append(Entry(path, mode, blob))
    making.found[patch.key] = tuple(entries)


async def _commit(making: _Making, patches: Sequence[Changeset], date: str) -> dict[str, str]:
    new: dict[str, NewCommit] = {}
    for patch in patches:
        found = making.found.get(patch.key, ())
        if found and not isinstance(found, PatchRefused):
            new[patch.key] = NewCommit(message_of(patch), found)
    ids = await make_commits(making.own, making.base, list(new.values()), date=date, line=False)
    return dict(zip(new, ids, strict=True))


def message_of(patch: Changeset, *trailers: str) -> bytes:
    title, key = (" ".join(text.replace("\0", " ").split()) for text in (patch.title, patch.key))
    told = "".join(f"{line}\n" for line in (f"Muster-Shard: {key}", *trailers))
    return f"{title or key}\n\n{told}".encode("utf-8", "backslashreplace")


async def _strays(own: Scratch, patches: Sequence[Changeset], commits: Mapping[str, str]) -> list[Changeset]:
    """Patches whose commit does not show the very same diff, or that are too much to look at together."""
    made: dict[str, Changeset] = {}
    size = 0
    for patch in patches:
        size += len(patch.diff)
        if patch.key in commits and size <= MAX_BYTES_TOGETHER:
            made[commits[patch.key]] = patch
    asked = "".join(f"{commit}\n" for commit in made).encode()
    shown = (await own.git(*COMPARE, *AS_PATCH, "--stdin", stdin=asked)).stdout if made else b""
    same = {made[commit].key for commit, diff in _diffs(shown, list(made)) if diff == made[commit].diff}
    return [patch for patch in patches if patch.diff and patch.key not in same]


def _diffs(shown: bytes, commits: Sequence[str]) -> Iterator[tuple[str, bytes]]:
    """A line with each commit's id, then its diff, in which no line is a bare id."""
    heads = [f"{commit}\n".encode() for commit in commits]
    start = 0
    for commit, head, following in zip(commits, heads, [*heads[1:], b""], strict=False):
        end = shown.find(following, start + len(head)) if following else len(shown)
        if end < 0 or not shown.startswith(head, start):
            return
        yield commit, shown[start + len(head) : end]
        start = end


def _bytes(path: str) -> bytes:
    return path.encode("utf-8", "surrogateescape")
