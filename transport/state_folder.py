"""What Muster keeps on a machine is for one user: the only place that makes folders for it, and opens its locks.

Other users of the machine are strangers. They cannot enter the state folder (mode 700), so that whatever stands in it,
by whoever it was made and with whatever mode, is out of their reach. A folder of ours that is wider is repaired. One of
somebody else, or a link, is refused: who owns it could exchange what is in it.
"""

from __future__ import annotations

import fcntl
import os
import stat
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from .errors import Misconfigured, Unreachable

LOCK_TIMEOUT_S = 10.0  # who holds one writes a small file
LOCK_LOOK_S = 0.02
# What only Muster makes: a folder that others may enter is closed to them if it is empty or has one of these. A slip in
# MUSTER_STATE_DIR must not close a home folder, or /var.
OURS = (
    *(
        "owners",
        "sandboxes",
        "bubblewrap",
        "setup-files",
        "supervisor.lock",
        "keyring.json",
        "orchestrator",
        "publications",
    ),
    *("api-tokens.json", "console.key", "trusted.json", "approvals", "asks", "editor-sessions"),
)
NOT_OURS_TO_COUNT = ("lost+found",)  # of a disk that is mounted there


def keep_files_private() -> None:
    """What this process makes from now on, and its children, is for its user alone.

    For programs that serve. A command writes into people's own folders, too, as their own umask says.
    """
    os.umask(0o077)


def private_folder(folder: Path) -> Path:
    """The folder, which is made if need be; all that is missing above it, too, is for this user alone."""
    missing = [each for each in (folder, *folder.parents) if not os.path.lexists(each)]
    for each in reversed(missing):
        with suppress(FileExistsError):  # another process was quicker
            each.mkdir(mode=0o700)
    return folder


def require_private(folder: Path) -> None:
    """Nobody else may enter the folder when this returns; one that is not there is fine.

    `Misconfigured` for a link, for somebody else's folder, and for one that others use and Muster has never used.
    """
    try:
        found = folder.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return
    if stat.S_ISLNK(found.st_mode):
        raise Misconfigured(f"{folder} is a link", hint=f"name the folder itself: {folder.resolve()}")
    if not stat.S_ISDIR(found.st_mode):
        return  # whoever wants to write there says so
    if found.st_uid != os.geteuid():
        hint = "name a folder of your own: MUSTER_STATE_DIR (or XDG_RUNTIME_DIR, for its sockets)"
        raise Misconfigured(f"{folder} belongs to another user", hint=hint)
    if found.st_mode & 0o077:
        _close(folder, found)


def _close(folder: Path, found: os.stat_result) -> None:
    """By a descriptor: the name may stand for something else by now."""
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        names = {entry.name for entry in os.scandir(opened) if not entry.name.startswith(".")} - {*NOT_OURS_TO_COUNT}
        if found.st_mode & stat.S_ISVTX or (names and names.isdisjoint(OURS)):
            hint = f"run: chmod 700 {folder}, or name a folder that is Muster's alone: MUSTER_STATE_DIR"
            raise Misconfigured(f"others may look into {folder}", hint=hint)
        if os.path.samestat(os.fstat(opened), found):
            os.fchmod(opened, 0o700)
    finally:
        os.close(opened)


@contextmanager
def held(lock: Path) -> Generator[None]:
    """Hold a lock file, for this user alone, against every other process. `Unreachable` when somebody keeps it."""
    private_folder(lock.parent)
    descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        os.fchmod(descriptor, 0o600)  # of an earlier release
        _lock(descriptor, lock)
        yield
    finally:
        os.close(descriptor)


@contextmanager
def folder_held(folder: Path) -> Generator[int]:
    """As `held`, by a folder whose files are replaced; its descriptor."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        _lock(descriptor, folder)
        yield descriptor
    finally:
        os.close(descriptor)


def _lock(descriptor: int, path: Path) -> None:
    until = time.monotonic() + LOCK_TIMEOUT_S
    while True:
        try:
            return fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            if time.monotonic() > until:
                message = f"another process has held {path} for {LOCK_TIMEOUT_S:g} s, and nothing was changed"
                raise Unreachable(message, hint=f"`fuser {path}` says which one; end it, and try again") from error
            time.sleep(LOCK_LOOK_S)
