"""Folders for the time of one job, which the next process removes when theirs was killed."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

PREFIX = "muster-job-"
LOCK_AGE_S = 10.0  # between making a folder and locking it pass microseconds; the rest is a machine that stood still


@contextmanager
def temporary_folder(purpose: str) -> Generator[Path]:
    """One that is locked, so that nobody takes it for a dead process's; gone at the end. `purpose` is in its name."""
    path = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{purpose}-"))
    descriptor = _opened(path)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)
        os.close(descriptor)


def abandoned_folders() -> Iterator[Path]:
    """Of this user's dead processes, and each removed when the caller goes on to the next."""
    for path in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        try:
            descriptor = _opened(path)
        except OSError:  # gone, or somebody's link
            continue
        try:
            found = os.fstat(descriptor)
            if found.st_uid != os.geteuid() or found.st_mtime > time.time() - LOCK_AGE_S:
                continue
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield path
            shutil.rmtree(path, ignore_errors=True)
        except BlockingIOError:
            continue  # it is at work
        finally:
            os.close(descriptor)


def _opened(path: Path) -> int:
    return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
