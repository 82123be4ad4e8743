"""A lock that other processes see."""

from __future__ import annotations

import asyncio
import fcntl
import os
import threading
import time
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path


@asynccontextmanager
async def file_lock(path: Path) -> AsyncGenerator[None]:
    """Hold `path` locked against every other holder, in this process or another. The kernel frees a dead one's lock."""
    is_locked = False
    while not is_locked:
        descriptor = _opened(path)
        waiting = _lock_in_thread(descriptor)
        try:
            await asyncio.shield(waiting)
            is_locked = _is_at(descriptor, path)  # else the holder has removed it, and others lock another file
            if is_locked:
                yield
        finally:
            # A thread inside flock cannot be called back: a cancelled waiter's descriptor is closed once it is through.
            if waiting.done():
                os.close(descriptor)
            else:
                waiting.add_done_callback(lambda _, left=descriptor: os.close(left))


@contextmanager
def try_lock(path: Path) -> Generator[bool]:
    """Whether `path` could be locked at once, and is still the file that others lock."""
    descriptor = _opened(path)
    try:
        yield _lock_now(descriptor, fcntl.LOCK_EX) and _is_at(descriptor, path)
    finally:
        os.close(descriptor)


def try_share(path: Path) -> int | None:
    """A descriptor that holds the file `path` locked, beside all who share it, until it is closed. None where there is
    no such file, or somebody has it alone."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)  # file systems of a network lock no other
    except FileNotFoundError:
        return None
    if _lock_now(descriptor, fcntl.LOCK_SH) and _is_at(descriptor, path):
        return descriptor
    os.close(descriptor)
    return None


@contextmanager
def turn_every(period_s: float, stamp: Path) -> Generator[bool]:
    """Whether it is the caller's turn: nobody is at it, and the last turn was longer ago. The first is at once."""
    is_new = not stamp.exists()
    with try_lock(stamp) as is_free:
        is_due = is_free and (is_new or time.time() - stamp.stat().st_mtime > period_s)
        if is_due:
            stamp_use(stamp)
        yield is_due


def stamp_use(path: Path) -> None:
    """Of what the lock file `path` stands for: now."""
    with suppress(FileNotFoundError):  # nobody has made it yet
        os.utime(path)


def _opened(path: Path) -> int:
    while True:
        path.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileNotFoundError):  # who removes things has removed an empty folder, too
            return os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)


def _lock_now(descriptor: int, how: int) -> bool:
    try:
        fcntl.flock(descriptor, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_at(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


def _lock_in_thread(descriptor: int) -> asyncio.Future[None]:
    """A thread of its own: waiters in the shared pool could take every thread that the holder needs to finish."""
    loop = asyncio.get_running_loop()
    locked: asyncio.Future[None] = loop.create_future()

    def wait() -> None:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        with suppress(RuntimeError):  # the loop has ended meanwhile, and this process with it
            loop.call_soon_threadsafe(locked.set_result, None)

    threading.Thread(target=wait, name="file-lock", daemon=True).start()
    return locked
