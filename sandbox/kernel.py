"""The few calls to this host's kernel that Python has no name for: mounts, and going where another process is."""

from __future__ import annotations

import ctypes
import errno
import os
import platform
from pathlib import Path

from .errors import SandboxError, SandboxLost, Unsupported

NOSUID, NODEV, NOEXEC = 2, 4, 8  # of a mount: linux/mount.h
DETACH = 2
OPEN_TREE, MOVE_MOUNT = 428, 429  # the same number on every machine
CLONE_TREE, CLOSE_ON_EXEC, EMPTY_PATH = 1, os.O_CLOEXEC, 4
HERE = -100
OWN_FOLDERS = 0x200  # CLONE_FS: this thread's root and working folder become its own
IO_PRIORITY, OF_PROCESS = {"x86_64": 252, "aarch64": 31}, 1
MOUNTS, MESSAGES = 0x20000, 0x8000000  # CLONE_NEWNS, CLONE_NEWIPC
# What else it refuses may go well the next time.
MEANS = {
    errno.ESRCH: SandboxLost,
    **dict.fromkeys(
        (errno.EPERM, errno.EACCES, errno.ENOSYS, errno.EINVAL, errno.ENODEV, errno.EOPNOTSUPP), Unsupported
    ),
}

_libc = ctypes.CDLL(None, use_errno=True)


def mount(kind: str, target: Path, options: str, flags: int) -> None:
    _done(_libc.mount(kind.encode(), os.fsencode(target), kind.encode(), flags, os.fsencode(options)), f"mount {kind}")


def unmount(target: Path) -> None:
    """At once for whoever looks anew; the last user ends it."""
    _done(_libc.umount2(os.fsencode(target), DETACH), f"unmount {target}")


def copy_of_mount(place: Path) -> int:
    """What is mounted there, as a descriptor, for `attach` in another namespace."""
    return _done(_libc.syscall(OPEN_TREE, HERE, os.fsencode(place), CLONE_TREE | CLOSE_ON_EXEC), "open_tree")


def attach(copy: int, target: Path) -> None:
    _done(_libc.syscall(MOVE_MOUNT, copy, b"", HERE, os.fsencode(target), EMPTY_PATH), "move_mount")


def leave_folders() -> None:
    """From here on this thread alone can go elsewhere. It never comes back, and has to end there."""
    _done(_libc.unshare(OWN_FOLDERS), "unshare")


def join(process_fd: int, kind: int) -> None:
    """This thread sees what the process sees."""
    _done(_libc.setns(process_fd, kind), "setns")


def io_priority(process: int) -> int:
    return _done(_libc.syscall(IO_PRIORITY[platform.machine()], OF_PROCESS, process), "ioprio_get")


def _done(answer: int, what: str) -> int:
    if answer < 0:
        number = ctypes.get_errno()
        raise MEANS.get(number, SandboxError)(f"The kernel refused {what}: {os.strerror(number)}.")
    return answer
