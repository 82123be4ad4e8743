"""What a sandbox has written so far, by the stamps of its files: equal stamps, and nothing was touched in between.

The kernel alone sets when a file was changed (ctime). Two changes within one tick of its clock look the same, so that
nothing is said about files that are younger than some ticks. What a process writes through a mapping that it keeps is
stamped late, by half a minute at most; whoever must not miss that reads the files.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

# More than this takes longer than to ask git, and who writes so many may mean no good.
MAX_ENTRIES = 2_000
MAX_DEPTH = 50
# A tick is 10 ms at most.
YOUNG_NS = 100_000_000

Stamps = dict[str, tuple[int, ...]]


class _TooMuch(Exception):
    """More than is looked at."""


def stamps_of(upper: Path) -> Stamps | None:
    """Of everything in the overlay's upper folder; None when nothing can be said. Follows no link."""
    found: Stamps = {}
    young_from_ns = time.time_ns() - YOUNG_NS
    try:
        _look(upper, None, "", found, MAX_DEPTH)
    except (OSError, _TooMuch):  # it changes while we look, or may not be looked at
        return None
    return None if any(ctime_ns > young_from_ns for ctime_ns, *_ in found.values()) else found


def _look(folder: Path | str, above_fd: int | None, place: str, found: Stamps, depth: int) -> None:
    """Each folder is opened from the one above it, and never by way of a link: the sandbox's commands may swap them."""
    folder_fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=above_fd)
    try:
        found[f"{place}/"] = _stamp(os.fstat(folder_fd))
        with os.scandir(folder_fd) as entries:
            for entry in entries:
                if len(found) > MAX_ENTRIES or not depth:
                    raise _TooMuch
                if entry.is_dir(follow_symlinks=False):
                    _look(entry.name, folder_fd, f"{place}/{entry.name}", found, depth - 1)
                else:
                    found[f"{place}/{entry.name}"] = _stamp(entry.stat(follow_symlinks=False))
    finally:
        os.close(folder_fd)


def _stamp(entry: os.stat_result) -> tuple[int, ...]:
    return entry.st_ctime_ns, entry.st_mtime_ns, entry.st_size, entry.st_ino, entry.st_mode
