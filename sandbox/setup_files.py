"""What setup commands write into the workspace and git ignores (`node_modules`, built extensions, a generated version
file): kept beside the setup's image, and laid over the checkout in every sandbox that opens with that image.

It is a layer of its own, below what a sandbox writes: no sandbox can change it, a reset leaves it as it is, and what
nobody wrote to is in no patch, whatever a change does to `.gitignore`.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from repo.collect import not_ignored
from repo.removal import discard_tree

from .base import MIB, Setup
from .errors import LimitExceeded
from .uids import AGENT_GID, AGENT_UID

FOLDER = "setup-files"  # in a driver's state folder
FILES, OF = "files", "of"
# Byte code of a file says which time it was compiled at; a change may set that. `.git` is the checkout's own.
NEVER = frozenset((b".git", b"__pycache__"))


def folder_of(folder: Path, image: str) -> Path:
    """Where it is kept for the image `image`, if it is one that a setup made."""
    return folder / image.rpartition(":")[2]


def layer_of(folder: Path, image: str, checkout: Path | None) -> Path | None:
    """To be laid over `checkout`; None where `image` was not made by its setup, or that left nothing."""
    kept = folder_of(folder, image)
    if checkout is None or not (kept / OF).is_file() or (kept / OF).read_text() != _name(checkout):
        return None
    return kept / FILES if any((kept / FILES).iterdir()) else None


def begin(sandbox: Path) -> Path:
    """An empty folder for the files, on the way to become an image's: see `finish`. Until then it goes with the
    sandbox's."""
    files = sandbox / FOLDER / FILES
    files.mkdir(parents=True)
    return files


def finish(files: Path, folder: Path, image: str, setup: Setup) -> None:
    """They stand whole from now on, or not at all."""
    part = files.parent
    _give_to_agent(files)
    (part / OF).write_text(_name(setup.checkout))
    target = folder_of(folder, image)
    target.parent.mkdir(exist_ok=True)
    discard_tree(target)
    part.rename(target)


def stamp(folder: Path, image: str) -> bool:
    """They are used now; whether they are there."""
    try:
        os.utime(folder_of(folder, image) / OF)
    except FileNotFoundError:
        return False
    return True


def used_at_s(folder: Path, image: str) -> float:
    """0 where nobody of this state folder has used them."""
    try:
        return (folder_of(folder, image) / OF).stat().st_mtime
    except FileNotFoundError:
        return 0


def written(upper: Path, checkout: Path) -> list[bytes]:
    """Files and links of an overlay's upper folder that the checkout has not. No link is followed."""
    root, base = os.fsencode(upper), os.fsencode(checkout)
    found: list[bytes] = []
    for parent, folders, names in os.walk(root):
        place = os.path.relpath(parent, root)
        links = [name for name in folders if os.path.islink(os.path.join(parent, name))]
        folders[:] = [name for name in folders if name not in NEVER and name not in links]
        for name in (*names, *links):
            path = os.path.normpath(os.path.join(place, name))
            status = os.lstat(os.path.join(root, path))
            fits = stat.S_ISREG(status.st_mode) or stat.S_ISLNK(status.st_mode)
            if fits and name not in NEVER and not os.path.lexists(os.path.join(base, path)):
                found.append(path)
    return found


async def ignored(checkout: Path, work_tree: Path, paths: Iterable[bytes]) -> list[bytes]:
    """Those that the rules in `work_tree` keep out of a patch."""
    asked = [path for path in paths if NEVER.isdisjoint(path.split(b"/"))]
    in_patch = set(await not_ignored(checkout / ".git", work_tree, asked))
    return [path for path in asked if path not in in_patch]


def copy(paths: Sequence[bytes], source: Path, target: Path, max_bytes: int, max_files: int) -> None:
    """`source` holds still, and its folders are folders: nothing here follows a link. The copy has no holes, and each
    name of a file is another file there."""
    total_bytes = sum(os.lstat(os.path.join(os.fsencode(source), path)).st_size for path in paths)
    if total_bytes > max_bytes or len(paths) > max_files:
        found = f"{len(paths):,} files of {total_bytes / MIB:.1f} MiB that git ignores"
        hint = f"{max_files:,} files of {max_bytes / MIB:.1f} MiB may be kept: remove in setup what tests do not need"
        raise LimitExceeded(f"Setup leaves {found} in the workspace, more than may be kept.", hint=hint)
    for path in paths:
        at, to = os.path.join(os.fsencode(source), path), os.path.join(os.fsencode(target), path)
        os.makedirs(os.path.dirname(to), exist_ok=True)
        shutil.copy2(at, to, follow_symlinks=False)


def hidden(layer: Path, upper: Path, checkout: Path) -> list[bytes]:
    """What stands in a workspace only because of `layer`: the topmost paths, folders with all that is in them."""
    return sorted(_hidden(os.fsencode(layer), os.fsencode(upper), os.fsencode(checkout), b""))


def _hidden(layer: bytes, upper: bytes, checkout: bytes, place: bytes) -> Iterator[bytes]:
    for entry in os.scandir(os.path.join(layer, place)):
        path = os.path.join(place, entry.name)
        is_elsewhere = os.path.lexists(os.path.join(upper, path)) or os.path.lexists(os.path.join(checkout, path))
        if not is_elsewhere:
            yield path
        elif entry.is_dir(follow_symlinks=False):
            yield from _hidden(layer, upper, checkout, path)


def _give_to_agent(files: Path) -> None:
    for parent, folders, names in os.walk(files):
        for name in (".", *folders, *names):
            path = os.path.join(parent, name)
            if os.geteuid() == 0:
                os.chown(path, AGENT_UID, AGENT_GID, follow_symlinks=False)
            if not os.path.islink(path):
                mode = stat.S_IMODE(os.lstat(path).st_mode)
                os.chmod(path, (mode & 0o777) | (0o700 if os.path.isdir(path) else 0o400))


def _name(checkout: Path) -> str:
    """A checkout that was collected and made again is the same one."""
    return f"{checkout.parent.name}/{checkout.name}"
