"""The few calls to this host's kernel that Python has no name for: mounts, and going where another process is."""

from __future__ import annotations

import asyncio
import ctypes
import errno
import os
import platform
import struct
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from .errors import SandboxError, SandboxLost, Unsupported

NOSUID, NODEV, NOEXEC, BIND, RECURSIVE, PRIVATE = 2, 4, 8, 0x1000, 0x4000, 0x40000  # of a mount: linux/mount.h
DETACH = 2
OPEN_TREE, MOVE_MOUNT, MOUNT_SETATTR = 428, 429, 442  # the same number on every machine
CLONE_TREE, CLOSE_ON_EXEC, EMPTY_PATH, EMPTY_PATH_AT = 1, os.O_CLOEXEC, 4, 0x1000
ATTRIBUTES = struct.Struct("4Q")  # to set, to clear, propagation, user namespace
READ_ONLY, MAP_OWNERS = 1, 0x100000
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

T = TypeVar("T")

_libc = ctypes.CDLL(None, use_errno=True)


def mount(kind: str, target: Path, options: str, flags: int, *, source: str = "") -> None:
    _done(
        _libc.mount(os.fsencode(source or kind), os.fsencode(target), kind.encode(), flags, os.fsencode(options)),
        f"mount {kind}",
    )


def unmount(target: Path) -> None:
    """At once for whoever looks anew; the last user ends it."""
    _done(_libc.umount2(os.fsencode(target), DETACH), f"unmount {target}")


def copy_of_mount(place: Path) -> int:
    """What is mounted there, as a descriptor, for `attach` in another namespace."""
    return _done(_libc.syscall(OPEN_TREE, HERE, os.fsencode(place), CLONE_TREE | CLOSE_ON_EXEC), "open_tree")


def attach(copy: int, target: Path) -> None:
    _done(_libc.syscall(MOVE_MOUNT, copy, b"", HERE, os.fsencode(target), EMPTY_PATH), "move_mount")


def map_owners(copy: int, user_namespace: int) -> None:
    """Of a mount that `copy_of_mount` gave: owners are those that the namespace says. It can only be read, also by who
    removes what lies there."""
    wanted = ATTRIBUTES.pack(READ_ONLY | MAP_OWNERS, 0, 0, user_namespace)
    _done(_libc.syscall(MOUNT_SETATTR, copy, b"", EMPTY_PATH_AT, wanted, ctypes.c_size_t(len(wanted))), "mount_setattr")


def leave_folders() -> None:
    """From here on this thread alone can go elsewhere. It never comes back, and has to end there."""
    _done(_libc.unshare(OWN_FOLDERS), "unshare")


def leave_mounts() -> None:
    """This thread gets a mount namespace of its own: nobody else sees what it mounts, nor it what others mount. It
    never comes back, and has to end there."""
    _done(_libc.unshare(MOUNTS), "unshare")
    mount("", Path("/"), "", RECURSIVE | PRIVATE)


async def in_a_thread_of_its_own(work: Callable[[], T]) -> T:
    """The thread is never used again: it stands elsewhere when it ends."""
    threads = ThreadPoolExecutor(max_workers=1)
    try:
        return await asyncio.get_running_loop().run_in_executor(threads, work)
    finally:
        threads.shutdown(wait=False)


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
