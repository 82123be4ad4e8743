"""A patch as a value: taken from an untrusted work tree, applied to a tree."""

from __future__ import annotations

import asyncio
import posixpath
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from .along import tree_along
from .cache import more_in
from .changes import (
    NO_MODE,
    SYMLINK_MODE,
    FileChange,
    TreeChange,
    changes_and_diff,
    changes_between,
    diff_between,
)
from .collect import Touched, collect, update_touched
from .errors import CommitMissing, GitFailed, OutputTooLarge, PatchRefused, TreePartial
from .fairness import at_once
from .git import GIB, Completed
from .mirror import Mirror
from .scratch import Scratch, scratch
from .seed import give_entries_to
from .weight import MAX_REPOSITORY_BYTES, while_bearable
from .wording import capped, each, is_utf8, readable

__all__ = ["FileChange", "Patch", "apply_to_tree", "extract_patch", "patch_between"]

MIB = 1024 * 1024
MAX_PATCH_BYTES = 64 * MIB
UNNAMED = "has a name that is not UTF-8 and was left out"  # it would fit into no message
NO_OBJECT = "0" * 40
MAX_APPLY_BYTES = 2 * GIB  # of memory, and of each file
APPLY = ("apply", "--cached", "--whitespace=nowarn", "-")


@dataclass(frozen=True, slots=True)
class Patch:
    """The difference from `base` to `tree`, as `git apply` reads it (binary, full index, renames).

    `warnings` are sentences for a person. `refused` are the paths that changed where the caller does not allow it:
    `diff`, `files` and `tree` are without them, and `refused_diff` (on top of `diff`) keeps them to be looked at.
    """

    base: str
    diff: bytes
    files: tuple[FileChange, ...]
    tree: str
    warnings: tuple[str, ...]
    refused: tuple[str, ...]
    refused_diff: bytes = b""

    @property
    def empty(self) -> bool:
        return not self.files


async def extract_patch(
    *,
    git_dir: Path,
    base: str,
    work_tree: Path,
    index_seed: Path | None = None,
    touched: Touched | None = None,
    partial: bool = False,
    allowed: Callable[[str], bool] | None = None,
    hidden: Sequence[bytes] = (),
    max_bytes: int = MAX_PATCH_BYTES,
) -> Patch:
    """What `work_tree` holds beyond `base` (a commit or tree id in the bare repository `git_dir`).

    Nothing of the work tree runs (stop its own processes first), and nothing is written to it or to `git_dir`.
    `index_seed` (`checkout.index_of`) saves reading unchanged files, and `touched` looking at them: it promises that
    the seed is of `base`, and nothing else differs from it. `partial`: `work_tree` has nothing else; then `TreePartial`
    is raised where git has to see all of it. A rename needs `allowed` for both of its paths. New files at `hidden`
    paths, or below them, are no part of it.
    A file over `max_bytes` is left out with a warning; a patch over it raises `PatchRefused`.
    """
    with scratch(git_dir / "objects") as own:
        collected = await _collected(own, base, work_tree, index_seed, touched, partial, max_bytes, hidden)
        base_tree, found, warnings = collected.base_tree, collected.tree, collected.warnings
        changes, diff = await _compared(own, base_tree, found, max_bytes)
        unnamed, barred = await at_once(len(changes), lambda: _sorted_out(changes, allowed))
        if (unnamed or barred) and not collected.in_index:
            await own.git("read-tree", found)
        named = await _restore(own, unnamed, found)
        tree = await _restore(own, barred, named)
        kept = await changes_between(own, base_tree, tree) if tree != found else changes
        files = await at_once(len(kept), lambda: tuple(change.as_file_change() for change in kept))
        refused = await at_once(len(changes), lambda: _lost(changes, kept, unnamed))
        return Patch(
            base=base,
            diff=diff if tree == found and diff is not None else await _diff(own, base_tree, tree, max_bytes),
            files=files,
            tree=tree,
            warnings=(*warnings, *each((c.path for c in unnamed), UNNAMED), *await _link_warnings(own, kept)),
            refused=refused,
            refused_diff=await _diff(own, tree, named, max_bytes) if barred else b"",
        )


async def patch_between(mirror: Mirror, base: str, commit: str) -> Patch:
    """What `commit` changes against `base`; the mirror has both."""
    with scratch(mirror.objects) as own:
        base_tree, tree = await _tree_of(own, base), await _tree_of(own, commit)
        changes, diff = await changes_and_diff(own, base_tree, tree, GIB)
    return Patch(base, diff, tuple(change.as_file_change() for change in changes), tree, warnings=(), refused=())


async def apply_to_tree(git_dir: Path, base: str, diff: bytes) -> str:
    """The id of the tree that `diff` makes of `base` (a commit or tree id); its objects stay in `git_dir`.

    `PatchRefused` when it does not apply, or reaches outside of the tree.
    """
    with scratch(write_to=git_dir / "objects") as own:
        await own.git("read-tree", await _tree_of(own, base))
        if diff:
            await while_bearable(apply_to_index(own, diff), git_dir / "objects", MAX_REPOSITORY_BYTES, more_in(git_dir))
        return (await own.git("write-tree")).line


async def changes_by(git_dir: Path, base: str, diff: bytes) -> tuple[TreeChange, ...]:
    """What `diff` changes of `base`, with renames found; see `apply_to_tree`."""
    tree = await apply_to_tree(git_dir, base, diff)
    with scratch(git_dir / "objects") as own:
        return await changes_between(own, await _tree_of(own, base), tree)


async def apply_to_index(own: Scratch, diff: bytes) -> Completed:
    """Change the index of `own` by `diff`, wholly or not at all. A hundred bytes of it may name a file of any size."""
    try:
        return await own.git(*APPLY, stdin=diff, max_memory_bytes=MAX_APPLY_BYTES, max_file_bytes=MAX_APPLY_BYTES)
    except GitFailed as e:
        raise PatchRefused(f"The patch does not apply: {e.stderr or e}") from e


async def _tree_of(own: Scratch, base: str) -> str:
    asked = ("rev-parse", "--verify", "--quiet", "--end-of-options", f"{base}^{{tree}}")
    found = await own.git(*asked, ok=(0, 1, 128))
    if found.exit_code:
        raise CommitMissing(f"The mirror has no commit or tree {base}")
    return found.line.splitlines()[-1]


@dataclass(frozen=True, slots=True)
class _Collected:
    """A work tree as a tree of git's. `in_index`: the index holds it, too."""

    base_tree: str
    tree: str
    warnings: tuple[str, ...] = ()
    in_index: bool = True


async def _collected(
    own: Scratch,
    base: str,
    work_tree: Path,
    seed: Path | None,
    touched: Touched | None,
    partial: bool,
    max_bytes: int,
    hidden: Sequence[bytes],
) -> _Collected:
    """From the least that has to be looked at to all that there is."""
    if seed and touched and not partial and (along := await tree_along(own, work_tree, base, touched)):
        return _Collected(*along, in_index=False)
    base_tree = await _tree_of(own, base)
    warnings: tuple[str, ...] = ()
    if not (seed and touched and await _take_touched(own, seed, work_tree, touched)):
        if partial:
            raise TreePartial("The rest of the work tree is needed for this patch")
        await _seed_index(own, base_tree, seed, work_tree)
        warnings = await collect(own, work_tree, max_file_bytes=max_bytes, hidden=hidden)
    return _Collected(base_tree, (await own.git("write-tree")).line, warnings)


async def _take_touched(own: Scratch, seed: Path, work_tree: Path, touched: Touched) -> bool:
    shutil.copy2(seed, own.index_file)
    return await update_touched(own, work_tree, touched)


async def _seed_index(own: Scratch, base_tree: str, seed: Path | None, work_tree: Path) -> None:
    """The copy keeps its time stamp, by which git tells which entries are too young to be trusted unread."""
    if seed is not None:
        shutil.copyfile(seed, own.index_file)
        await asyncio.to_thread(give_entries_to, own.index_file, work_tree)
        shutil.copystat(seed, own.index_file)
    await own.git("read-tree", *(["-m", "-i"] if seed else []), base_tree)


async def _restore(own: Scratch, changes: Sequence[TreeChange], tree: str) -> str:
    """The tree without `changes`. Removals come first, since a file may stand where a folder was."""
    if not changes:
        return tree
    removals = b"".join(b"0 %s\t%s\0" % (NO_OBJECT.encode(), change.path) for change in changes)
    returns = (c for c in changes if c.old_mode != NO_MODE)
    entries = b"".join(b"%s %s\t%s\0" % (c.old_mode.encode(), c.old_id.encode(), c.old_path) for c in returns)
    await own.git("update-index", "-z", "--index-info", stdin=removals + entries)
    return (await own.git("write-tree")).line


async def _compared(
    own: Scratch, base_tree: str, tree: str, max_bytes: int
) -> tuple[tuple[TreeChange, ...], bytes | None]:
    """The diff is None where it is too large: what may not be in it may still be taken out."""
    try:
        return await changes_and_diff(own, base_tree, tree, max_bytes)
    except OutputTooLarge:
        return await changes_between(own, base_tree, tree), None


async def _diff(own: Scratch, base_tree: str, tree: str, max_bytes: int) -> bytes:
    try:
        return await diff_between(own, base_tree, tree, max_bytes) if base_tree != tree else b""
    except OutputTooLarge as e:
        hint = "have generated files ignored, or raise the limit"
        raise PatchRefused(f"The patch is larger than {max_bytes} bytes", hint=hint) from e


def _sorted_out(
    changes: Sequence[TreeChange], allowed: Callable[[str], bool] | None
) -> tuple[list[TreeChange], list[TreeChange]]:
    """Those whose names are no text, and those that are not allowed."""
    unnamed = [change for change in changes if not _is_text(change)]
    return unnamed, [change for change in changes if _is_text(change) and not _is_allowed(change, allowed)]


def _is_text(change: TreeChange) -> bool:
    return all(map(is_utf8, change.paths))


def _is_allowed(change: TreeChange, allowed: Callable[[str], bool] | None) -> bool:
    return allowed is None or all(allowed(path.decode()) for path in change.paths)


def _lost(changes: Sequence[TreeChange], kept: Sequence[TreeChange], unnamed: Sequence[TreeChange]) -> tuple[str, ...]:
    """Compared, not remembered: a restored file may also have pushed out an allowed one."""
    before, after, known = ({path for c in group for path in c.paths} for group in (changes, kept, unnamed))
    return tuple(sorted(readable(path) for path in before - after - known))


async def _link_warnings(own: Scratch, changes: Sequence[TreeChange]) -> list[str]:
    links = [change for change in changes if change.mode == SYMLINK_MODE]
    if not links:
        return []
    ids = "".join(f"{change.id}\n" for change in links).encode()
    output = (await own.git("cat-file", "--batch", stdin=ids)).stdout
    warnings: list[str] = []
    for change in links:
        header, _, rest = output.partition(b"\n")
        size = int(header.split()[2])
        target, output = rest[:size], rest[size + 1 :]
        landing = posixpath.normpath(posixpath.join(posixpath.dirname(change.path), target))
        if target.startswith(b"/") or landing.split(b"/")[0] == b"..":
            warnings.append(f"{readable(change.path)} is a link that leaves the tree, to {readable(target)}")
    return capped(warnings)
