"""A folder of this host that looks as a workspace elsewhere does: as far as git has to see it.

Only what `changes.decoded` has let through comes here, and below the folder stands nothing but what is written here: so
that no path leads out of it.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from repo.patch import MAX_PATCH_BYTES
from repo.removal import remove_tree

from .changes import Look, parents, status_in


@dataclass(frozen=True, slots=True)
class Shadow:
    folder: Path

    def start_from(self, checkout: Path, gone: Iterable[bytes]) -> None:
        """With all of a checkout but its `.git`, and without what is gone."""
        top = os.fspath(checkout)
        shutil.copytree(
            checkout,
            self.folder,
            symlinks=True,
            dirs_exist_ok=True,
            ignore=lambda folder, names: [".git"] if folder == top and ".git" in names else [],
        )
        for path in sorted(gone, reverse=True):  # what is in a folder before the folder
            status = status_in(self.folder, path)
            if status is not None:
                (os.rmdir if stat.S_ISDIR(status.st_mode) else os.unlink)(self._at(path))

    def put(self, path: bytes, look: Look, content: bytes) -> None:
        target = self._made_room(path)
        if stat.S_ISLNK(look.mode):
            os.symlink(content, target)
            return
        with open(target, "xb") as file:
            file.write(content)
            os.fchmod(file.fileno(), 0o600 | (look.mode & 0o100))  # all of a mode that git keeps

    def put_mark(self, path: bytes, look: Look) -> None:
        """For what is too large or no file: that it is there, without what is in it."""
        target = self._made_room(path)
        if path.endswith(b"/.git"):
            os.mkdir(target)
        elif stat.S_ISREG(look.mode):
            with open(target, "xb") as file:
                file.truncate(MAX_PATCH_BYTES + 1)
        else:
            os.mkfifo(target)

    def copy_from(self, checkout: Path, path: bytes) -> None:
        """What did not change, if it is there."""
        status = status_in(checkout, path)
        if status is not None and not stat.S_ISDIR(status.st_mode) and status_in(self.folder, path) is None:
            source = os.path.join(os.fsencode(checkout), path)
            shutil.copy2(source, self._made_room(path), follow_symlinks=False)

    def _made_room(self, path: bytes) -> bytes:
        """For something new, in folders of its own."""
        for parent in parents(path):
            status = status_in(self.folder, parent)
            if status is None:
                os.mkdir(self._at(parent))
        status = status_in(self.folder, path)
        if status is not None:
            target = Path(os.fsdecode(self._at(path)))
            (remove_tree if stat.S_ISDIR(status.st_mode) else os.unlink)(target)
        return self._at(path)

    def _at(self, path: bytes) -> bytes:
        return os.path.join(os.fsencode(self.folder), path)
