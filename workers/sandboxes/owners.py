"""Who owns which sandboxes on this machine: one locked file for each live worker.

The kernel lets go of a lock when its process ends, however it ends. A file that can be locked is therefore the mark
of a dead worker, and what that one left behind may be removed at once, without waiting for it to expire.

Who is found dead is remembered for a while: what an engine was asked for just before may come about only afterwards.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from transport.state_folder import private_folder

# An engine has a minute to answer (sandbox/docker.py); whatever it makes for a dead worker it has made by then.
REMEMBERED_S = 120.0


@contextmanager
def owned(folder: Path, name: str) -> Generator[None]:
    """Be known as the live owner `name` until the end of the context, or of the process."""
    private_folder(folder)
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


def dead_owners(folder: Path, *, dead_for_s: float = 0.0, remembered_s: float = REMEMBERED_S) -> Iterator[str]:
    """The names of owners that have been known to be gone for `dead_for_s`; each again until `remembered_s` are over.

    What raises in between leaves the name for another time, and so does `find_again`.
    """
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        try:
            with path.open("r+") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if _dead_for_s(file) >= dead_for_s:
                    yield path.name
                if _dead_for_s(file) >= remembered_s:
                    path.unlink(missing_ok=True)
        except (BlockingIOError, FileNotFoundError):
            continue  # it lives, or another worker was faster


def find_again(folder: Path, name: str) -> None:
    """Not all that a dead owner left could be removed: it is remembered as if it were found only now."""
    with suppress(FileNotFoundError):
        os.truncate(folder / name, 0)


def _dead_for_s(file: IO[str]) -> float:
    """Since the first who found it wrote that down, in a file that is locked; a live owner's is empty."""
    file.seek(0)
    now_s = time.time()
    if not (found_at_s := file.read()):
        file.write(str(now_s))
        file.flush()
    return now_s - float(found_at_s or now_s)
