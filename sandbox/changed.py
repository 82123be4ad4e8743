"""Which paths a sandbox may have changed, by what its overlay had to write down: a folder of the changes alone.

The upper folder holds each file that was written, a mark for each that was removed, and the folders above them. What
else can stand there is rare: then nothing is said, and whoever asks looks at the whole workspace. Nobody may write
meanwhile.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from repo.collect import Touched
from repo.patch import MAX_PATCH_BYTES

MAX_PATHS = 10_000  # more than this is quicker found out by git
MAX_DEPTH = 50
PROBE = "trusted.muster"
# What the kernel notes at a folder: that nothing of the lower one is seen in it, or what does not matter here.
OPAQUE = "trusted.overlay.opaque"
HARMLESS = frozenset({OPAQUE, *(f"trusted.overlay.{name}" for name in ("origin", "impure", "uuid", "nlink", "upper"))})
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW


class _Odd(Exception):
    """Not to be judged from here."""


def touched_paths(upper: Path, lower: Path) -> Touched | None:
    """Where the overlay of both can differ from `lower`, which is a base, whole, and a `.git` of its own."""
    found = _Found()
    try:
        # Who may not read the kernel's notes would take a folder that was emptied for one that was not.
        os.setxattr(upper.parent, PROBE, b"")
        with _opened(upper) as upper_fd, _opened(lower) as lower_fd:
            found.in_folder(upper_fd, lower_fd, b"", MAX_DEPTH)
    except (OSError, _Odd):
        return None
    return Touched(sorted(found.tracked), sorted(found.new))


class _Found:
    """Each folder is opened from the one above it, so that no link is followed."""

    def __init__(self) -> None:
        self.tracked: set[bytes] = set()
        self.new: set[bytes] = set()

    def in_folder(self, upper: int, lower: int | None, place: bytes, depth: int) -> None:
        if _hides(upper) and lower is not None:
            self._all_of(lower, place, depth)
        for name in _names(upper, depth):
            if name != b".git":
                self._at(name, upper, lower, place, depth)
            elif place:  # a repository of its own
                raise _Odd
        if len(self.tracked) + len(self.new) > MAX_PATHS:
            raise _Odd

    def _at(self, name: bytes, upper: int, lower: int | None, place: bytes, depth: int) -> None:
        path, now, before = place + name, os.lstat(name, dir_fd=upper), _status(name, lower)
        is_folder, was_folder = stat.S_ISDIR(now.st_mode), before is not None and stat.S_ISDIR(before.st_mode)
        if is_folder and was_folder:
            with _opened(name, upper) as above, _opened(name, lower) as below:
                self.in_folder(above, below, path + b"/", depth - 1)
        elif is_folder and before is None:
            with _opened(name, upper) as above:
                self.in_folder(above, None, path + b"/", depth - 1)
        elif _is_gone(now) and was_folder:
            with _opened(name, lower) as below:
                self._all_of(below, path + b"/", depth - 1)
        elif _is_gone(now) or (_fits(now) and not was_folder):
            (self.new if before is None else self.tracked).add(path)
        else:
            raise _Odd

    def _all_of(self, lower: int, place: bytes, depth: int) -> None:
        """Of a folder that cannot be seen any more. One that is empty is a submodule's, which git knows by its path."""
        names = _names(lower, depth)
        if not names:
            self.tracked.add(place.rstrip(b"/"))
        for name in names:
            if stat.S_ISDIR(os.lstat(name, dir_fd=lower).st_mode):
                with _opened(name, lower) as below:
                    self._all_of(below, place + name + b"/", depth - 1)
            else:
                self.tracked.add(place + name)


@contextmanager
def _opened(path: Path | bytes, above: int | None = None) -> Generator[int]:
    folder = os.open(path, FOLDER, dir_fd=above)
    try:
        yield folder
    finally:
        os.close(folder)


def _names(folder: int, depth: int) -> list[bytes]:
    names = os.listdir(folder) if depth else []
    if len(names) > MAX_PATHS or not depth:
        raise _Odd
    return [os.fsencode(name) for name in names]


def _status(name: bytes, folder: int | None) -> os.stat_result | None:
    if folder is None:
        return None
    try:
        return os.lstat(name, dir_fd=folder)
    except FileNotFoundError:
        return None


def _hides(folder: int) -> bool:
    """Whether nothing of the lower folder is seen. A folder that shows another's files says nothing of them."""
    notes = {name for name in os.listxattr(folder) if name.startswith("trusted.overlay.")}
    if not notes <= HARMLESS:
        raise _Odd
    return OPAQUE in notes


def _is_gone(status: os.stat_result) -> bool:
    """How an overlay marks what was removed. Nobody inside can make one."""
    return stat.S_ISCHR(status.st_mode) and status.st_rdev == 0


def _fits(status: os.stat_result) -> bool:
    """Into a patch, as a file or as a link."""
    return stat.S_ISLNK(status.st_mode) or (stat.S_ISREG(status.st_mode) and status.st_size <= MAX_PATCH_BYTES)
