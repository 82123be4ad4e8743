"""What a repository may weigh: its history while it comes, and a commit's files before any of them is written.

A server sends for as long as anybody listens, and a few kilobytes of history can name billions.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import time
from collections.abc import Coroutine, Iterable
from pathlib import Path
from typing import Any, TypeVar

from .errors import CheckoutFailed, DiskFull, OutputTooLarge, RepositoryTooLarge
from .git import GIB, git

# A million paths of 75 characters, twice what the largest repositories of the world have.
MAX_LISTING_BYTES = 128 * 1024 * 1024
MIB = 1024 * 1024
MAX_FILES_BYTES = 32 * GIB
HINT = "give the task a smaller repository"
# As much as a worker keeps of all repositories, unless it is told otherwise.
MAX_REPOSITORY_BYTES = 20 * GIB
WATCH_S = 0.5
WATCH_SHARE = 10  # looking takes one part in so many of the time: a mirror may have very many files
# What one fetch leaves to everybody else, of the bytes and of the files that its disk can hold; and what it may write
# all the same.
SPARED_SHARE = 20
SMALL_BYTES = 256 * MIB

T = TypeVar("T")


async def require_bearable(git_dir: Path, commit: str, folder: Path) -> None:
    """`CheckoutFailed` for more than any task has business with, `DiskFull` for more than `folder`'s disk has left."""
    short = commit[:12]
    try:
        ask = ("ls-tree", "-r", "-l", "-z", "--full-tree", commit)
        listed = await git(*ask, git_dir=git_dir, max_stdout_bytes=MAX_LISTING_BYTES)
    except OutputTooLarge as e:
        raise CheckoutFailed(f"The files of commit {short} are more than a million or so", hint=HINT) from e
    total_bytes = await asyncio.to_thread(_total_bytes, listed.stdout)
    if total_bytes > MAX_FILES_BYTES:
        size = f"{total_bytes / GIB:,.0f} GiB of at most {MAX_FILES_BYTES // GIB}"
        raise CheckoutFailed(f"The files of commit {short} are too large: {size}", hint=HINT)
    disk = shutil.disk_usage(folder)
    # As of a fetch: what is left of a disk is for everybody else, but for what is small.
    free_bytes = disk.free if total_bytes <= SMALL_BYTES else disk.free - disk.total // SPARED_SHARE
    if total_bytes > free_bytes:
        left, takes = f"{max(0, free_bytes) / MIB:,.0f} MiB are left", f"{total_bytes / MIB:,.0f}"
        message = f"The disk is full: no space left in {folder}: {left}, and commit {short} takes {takes}"
        raise DiskFull(message, hint="free some: `muster sandbox prune`; or move the state folder to a larger disk")


def _total_bytes(listed: bytes) -> int:
    """Of what has a size: no submodule has, and no object that is missing."""
    sizes = (entry.partition(b"\t")[0].rpartition(b" ")[2] for entry in listed.split(b"\0"))
    return sum(int(size) for size in sizes if size.isdigit())


async def while_bearable(work: Coroutine[Any, Any, T], folder: Path, max_bytes: int) -> T:
    """Do the work, which writes into `folder`; stop it with `RepositoryTooLarge` when that is more than `max_bytes`, or
    the disk is nearly full of it."""
    before_bytes = await _size_bytes(folder)
    doing = asyncio.ensure_future(work)
    pause_s = WATCH_S
    try:
        while not (await asyncio.wait({doing}, timeout=pause_s))[0]:
            began_s = time.monotonic()
            size_bytes = await _size_bytes(folder)
            if size_bytes > max_bytes:
                raise too_large(max_bytes)
            if size_bytes - before_bytes > SMALL_BYTES and _is_nearly_full(folder):
                message = f"The repository is too large for this disk: {folder} has hardly any room left"
                raise RepositoryTooLarge(message, hint=HINT)
            pause_s = max(WATCH_S, WATCH_SHARE * (time.monotonic() - began_s))
        return doing.result()
    finally:
        doing.cancel()
        await asyncio.gather(doing, return_exceptions=True)


def too_large(max_bytes: int) -> RepositoryTooLarge:
    size = f"{max_bytes / GIB:,.0f} GiB" if max_bytes >= GIB else f"{max_bytes / MIB:,.0f} MiB"
    return RepositoryTooLarge(f"The repository is too large: it is more than {size}", hint=HINT)


def _is_nearly_full(folder: Path) -> bool:
    disk = os.statvfs(folder)
    return disk.f_bavail < disk.f_blocks // SPARED_SHARE or disk.f_favail < disk.f_files // SPARED_SHARE


async def _size_bytes(folder: Path) -> int:
    return (await sizes_bytes([folder])).get(folder, 0)


async def sizes_bytes(paths: Iterable[Path]) -> dict[Path, int]:
    """On the disk. By a program of its own: a walk through all files in here would keep the event loop waiting."""
    names = b"".join(os.fsencode(path) + b"\0" for path in paths)
    if not names:
        return {}
    process = await asyncio.create_subprocess_exec(
        "du", "--summarize", "--block-size=1", "--null", "--files0-from=-",
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    said, _ = await process.communicate(names)
    lines = [line.split(b"\t", 1) for line in said.split(b"\0") if line]
    return {Path(os.fsdecode(name)): int(size) for size, name in lines}
