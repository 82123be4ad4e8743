"""Who owns which sandboxes on this machine: one locked file for each live worker.

The kernel lets go of a lock when its process ends, however it ends. A file that can be locked is therefore the mark
of a dead worker, and what that one left behind may be removed at once, without waiting for it to expire.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def owned(folder: Path, name: str) -> Generator[None]:
    """Be known as the live owner `name` until the end of the context, or of the process."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    with _locked(path):
        yield
        path.unlink(missing_ok=True)


@contextmanager
def _locked(path: Path) -> Generator[None]:
    """Hold the lock of the file that stands at `path` now.

    Between making it and locking it, somebody may have taken it for a dead owner's, and removed it.
    """
    while True:
        with path.open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            if path.exists() and os.path.samestat(os.fstat(file.fileno()), path.stat()):
                yield
                return


def dead_owners(folder: Path) -> Iterator[str]:
    """The names of owners that are gone; each is forgotten once the caller has gone on to the next.

    What raises in between leaves the name for another time.
    """
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        try:
            with path.open("r+") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                yield path.name
                path.unlink(missing_ok=True)
        except (BlockingIOError, FileNotFoundError):
            continue  # it lives, or another worker was faster
