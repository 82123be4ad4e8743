"""Remove a folder with all that is in it, however deep: a program nests folders as long as it likes."""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from pathlib import Path

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def remove_tree(folder: Path) -> None:
    """No link is followed. `FileNotFoundError` when it is gone, or goes meanwhile.

    `shutil.rmtree` calls itself for each level, with a descriptor for each: a thousand levels are too many for it.
    """
    here, above = os.open(folder, _FOLDER), list[tuple[tuple[int, int], list[str]]]()
    try:
        waiting = _folders_left(here)
        while waiting or above:
            if waiting:
                above.append((_identity(here), waiting))
                here = _step(here, waiting[-1])
                waiting = _folders_left(here)
            else:
                parent, waiting = above.pop()
                here = _step(here, "..")
                if _identity(here) != parent:  # somebody moves folders about: this one may be anywhere
                    raise OSError(errno.ESTALE, "it was moved while it was removed", str(folder))
                os.rmdir(waiting.pop(), dir_fd=here)
    finally:
        os.close(here)
    folder.rmdir()


def discard_tree(folder: Path) -> None:
    """As far as it can be removed, and is there: what is left, somebody else finds, or nobody needs to."""
    with suppress(OSError):
        remove_tree(folder)


def _step(here: int, name: str) -> int:
    there = os.open(name, _FOLDER, dir_fd=here)
    os.close(here)
    return there


def _folders_left(here: int) -> list[str]:
    """All else is unlinked."""
    with os.scandir(here) as entries:
        folders = {entry.name: entry.is_dir(follow_symlinks=False) for entry in entries}
    for name in [name for name, is_folder in folders.items() if not is_folder]:
        os.unlink(name, dir_fd=here)
    return [name for name, is_folder in folders.items() if is_folder]


def _identity(folder: int) -> tuple[int, int]:
    status = os.fstat(folder)
    return status.st_dev, status.st_ino
