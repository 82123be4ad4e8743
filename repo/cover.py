"""Files laid over a commit, as a commit of their own; and a change of the one as a change of the other."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from .bundle import bundle, history_ends
from .changes import NO_MODE, SYMLINK_MODE, changes_between, diff_between
from .errors import FilesRefused, PatchRefused
from .fast_import import NewFile, commit_files
from .git import GIB
from .local import Place
from .merge import commit_tree
from .mirror import Mirror
from .patch import NO_OBJECT, Patch, apply_to_tree, patch_between
from .scratch import Scratch, make_git_dir, scratch, write_ends
from .temporary import temporary_folder

# People keep a project or its tests in such a folder; what is larger belongs in a repository.
MAX_FILES, MAX_BYTES = 10_000, 64 * 1024 * 1024
DATE = "0 +0000"  # the same files are the same commit, whenever it is made


@dataclass(frozen=True, slots=True)
class Layer:
    message: str
    files: Mapping[str, NewFile]


def files_in(folder: Path) -> dict[str, NewFile]:
    """All regular files below a folder, by their paths in it. `FilesRefused` for links, and for too much.

    What tools of Python leave behind (`__pycache__`) and git's own folders are passed over.
    """
    found: dict[str, NewFile] = {}
    size = 0
    for parent, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in (".git", "__pycache__", ".pytest_cache"))
        for name in sorted(names):
            path = Path(parent) / name
            if path.is_symlink() or not path.is_file():
                raise FilesRefused(f"{path} is no regular file", hint="put the file itself there")
            size += path.stat().st_size
            if len(found) == MAX_FILES or size > MAX_BYTES:
                limit = f"{MAX_FILES} files or {MAX_BYTES >> 20} MiB"
                raise FilesRefused(f"{folder} has more than {limit}", hint="commit it to a repository, and name that")
            executable = os.access(path, os.X_OK)
            found[path.relative_to(folder).as_posix()] = NewFile(path.read_bytes(), executable)
    return found


async def bundle_layers(
    layers: Sequence[Layer], target: Path, *, on: str = "", place: Place | None = None
) -> tuple[str, ...]:
    """Write files to the bundle `target`, each layer a commit over the one before, the first over the commit `on` of
    `place`; their ids, in order.

    Nothing is written to `place`, and nothing in the commits tells of the day or the machine.
    """
    with temporary_folder("files") as folder:
        git_dir = folder / "git"
        make_git_dir(git_dir)
        if place is not None:
            (git_dir / "objects/info/alternates").write_text(f"{place.objects.absolute()}\n")
            write_ends(git_dir, await history_ends(place, on))
        commits: list[str] = []
        for layer in layers:
            with scratch(*([place.objects] if place else []), write_to=git_dir / "objects") as own:
                parent = commits[-1] if commits else on
                commits.append(await commit_files(own, layer.files, on=parent, message=layer.message, date=DATE))
        await bundle(Place(git_dir, git_dir, git_dir, True), commits[-1], target)
    return tuple(commits)


async def over_files(git_dir: Path, base: str, diff: bytes, folder: Path) -> bytes:
    """The change `diff` of `base`, for a work tree in which the files of `folder` lie, too: what it adds in their
    place, it changes there. `PatchRefused` for a diff that does not apply to `base`."""
    after = await apply_to_tree(git_dir, base, diff)
    with scratch(git_dir / "objects") as own:
        added = [change.path for change in await changes_between(own, base, after) if change.status in ("A", "R")]
        entries = await asyncio.to_thread(_standing, folder, added)
        if not entries:
            return diff
        await own.git("read-tree", base)
        laid = [b"%s %s\t%s\0" % (mode, await _stored(own, folder, at), at) for mode, at in entries]
        await own.git("update-index", "--add", "-z", "--index-info", stdin=b"".join(laid))
        return await diff_between(own, (await own.git("write-tree")).line, after, GIB)


def _standing(folder: Path, paths: Sequence[bytes]) -> list[tuple[bytes, bytes]]:
    """git's mode of each file or link that stands there, and its path. No link is followed on the way.

    `PatchRefused` for more than `MAX_BYTES` of them: a diff of a few lines may name what fills a disk.
    """
    known: dict[Path, bool] = {folder: True}
    found: list[tuple[bytes, bytes]] = []
    size = 0
    for path in paths:
        file = folder / os.fsdecode(path)
        if not _is_folder(file.parent, known):
            continue
        status = file.lstat() if file.is_symlink() or file.is_file() else None
        if status is None:
            continue
        size += status.st_size
        if size > MAX_BYTES:
            raise PatchRefused(f"The patch adds files where a setup has left more than {MAX_BYTES >> 20} MiB")
        regular = b"100755" if status.st_mode & 0o111 else b"100644"
        found.append((SYMLINK_MODE.encode() if file.is_symlink() else regular, path))
    return found


def _is_folder(place: Path, known: dict[Path, bool]) -> bool:
    """Of its own, and by no link: looked at once, and from the top, since what is not there has nothing below."""
    below: list[Path] = []
    while place not in known:
        below.append(place)
        place = place.parent
    is_there = known[place]
    for each in reversed(below):
        is_there = is_there and not each.is_symlink() and each.is_dir()
        known[each] = is_there
        if not is_there:
            break
    return is_there


async def _stored(own: Scratch, folder: Path, path: bytes) -> bytes:
    content = await asyncio.to_thread(_content, folder / os.fsdecode(path))
    return (await own.git("hash-object", "-w", "--stdin", stdin=content)).line.encode()


def _content(file: Path) -> bytes:
    return os.fsencode(file.readlink()) if file.is_symlink() else file.read_bytes()


async def commit_with(mirror: Mirror, base: str, diff: bytes) -> str:
    """The commit that `diff` makes of `base`. It stays in the mirror; `PatchRefused` for a diff of something else."""
    tree = await apply_to_tree(mirror.git_dir, base, diff)
    with scratch(write_to=mirror.objects) as own:
        return await commit_tree(own, base, tree, b"verified", DATE)


async def carried_over(mirror: Mirror, base: str, onto: str, diff: bytes) -> Patch:
    """The change `diff` of `base` as one of `onto`, a commit on `base`: where both touch a path, that of `onto` stays.

    `PatchRefused` for a diff that does not apply to `base`. The new objects stay in the mirror.
    """
    changed = await apply_to_tree(mirror.git_dir, base, diff)
    with scratch(write_to=mirror.objects) as own:
        await own.git("read-tree", changed)
        covering = await changes_between(own, base, onto)
        gone = {path for change in covering for path in change.paths}
        removals = b"".join(b"0 %s\t%s\0" % (NO_OBJECT.encode(), path) for path in sorted(gone))
        entries = b"".join(
            b"%s %s\t%s\0" % (change.mode.encode(), change.id.encode(), change.path)
            for change in covering
            if change.mode != NO_MODE
        )
        await own.git("update-index", "-z", "--index-info", stdin=removals + entries)
        tree = (await own.git("write-tree")).line
    return await patch_between(mirror, onto, tree)
