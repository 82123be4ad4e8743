"""Folders for the time of one job, which the next process removes when theirs was killed."""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from .removal import discard_tree

PREFIX = "muster-job-"


@contextmanager
def temporary_folder(purpose: str) -> Generator[Path]:
    """One that is locked, so that nobody takes it for a dead process's; gone at the end. `purpose` is in its name."""
    path, descriptor = _locked(purpose)
    try:
        yield path
    finally:
        discard_tree(path)
        os.close(descriptor)


def _locked(purpose: str) -> tuple[Path, int]:
    """Between making a folder and locking it, somebody may have taken it for a dead process's, and removed it."""
    while True:
        path = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{purpose}-"))
        with suppress(FileNotFoundError):
            descriptor = _opened(path)
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            if path.is_dir():
                return path, descriptor
            os.close(descriptor)


def abandoned_folders() -> Iterator[Path]:
    """Of this user's dead processes, and each removed when the caller goes on to the next."""
    for path in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        try:
            descriptor = _opened(path)
        except OSError:  # gone, or somebody's link
            continue
        try:
            if os.fstat(descriptor).st_uid != os.geteuid():
                continue
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield path
            discard_tree(path)
        except BlockingIOError:
            continue  # it is at work
        finally:
            os.close(descriptor)


def _opened(path: Path) -> int:
    return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
