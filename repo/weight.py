"""What a repository may weigh: its history while it comes, and a commit's files before any of them is written.

A server sends for as long as anybody listens, and a few kilobytes of history can name billions.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from .errors import CheckoutFailed, DiskFull, OutputTooLarge, RepositoryTooLarge
from .git import git
from .keeping import GIB, MIB, SMALL_BYTES, SPARED_SHARE

# A million paths of 75 characters, twice what the largest repositories of the world have.
MAX_LISTING_BYTES = 128 * 1024 * 1024
MAX_FILES_BYTES = 32 * GIB
HINT = "give the task a smaller repository"
# As much as a worker keeps of all repositories, unless it is told otherwise.
MAX_REPOSITORY_BYTES = 20 * GIB
WATCH_S = 0.5
WATCH_SHARE = 10  # looking takes one part in so many of the time: a mirror may have very many files
BLOCK_BYTES = 4096  # what an empty file takes on most disks, with its entry

T = TypeVar("T")
More = Callable[[int], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Weight:
    size_bytes: int
    files: int = 0


NOTHING = Weight(0)


async def require_bearable(git_dir: Path, commit: str) -> Weight:
    """What the files of a commit take on a disk; `CheckoutFailed` for more than any task has business with."""
    short = commit[:12]
    try:
        ask = ("ls-tree", "-r", "-t", "-l", "-z", "--full-tree", commit)
        listed = await git(*ask, git_dir=git_dir, max_stdout_bytes=MAX_LISTING_BYTES)
    except OutputTooLarge as e:
        raise CheckoutFailed(f"The files of commit {short} are more than a million or so", hint=HINT) from e
    sizes = await asyncio.to_thread(_sizes, listed.stdout)
    if sum(sizes) > MAX_FILES_BYTES:
        size = f"{sum(sizes) / GIB:,.0f} GiB of at most {MAX_FILES_BYTES // GIB}"
        raise CheckoutFailed(f"The files of commit {short} are too large: {size}", hint=HINT)
    return Weight(sum(max(1, -(-size // BLOCK_BYTES)) * BLOCK_BYTES for size in sizes), len(sizes))


def _sizes(listed: bytes) -> list[int]:
    """Of each path; nothing for what has none: a folder, a submodule, an object that is missing."""
    sizes = (entry.partition(b"\t")[0].rpartition(b" ")[2] for entry in listed.split(b"\0") if entry)
    return [int(size) if size.isdigit() else 0 for size in sizes]


async def while_bearable(work: Coroutine[Any, Any, T], folder: Path, max_bytes: int, more: More | None = None) -> T:
    """Do the work, which writes into `folder`; stop it with `RepositoryTooLarge` when that is more than `max_bytes`, or
    the disk is nearly full. `more`, if there is one, makes room for so many bytes first (see `cache.room_for`)."""
    before_bytes = await _size_bytes(folder)
    doing = asyncio.ensure_future(work)
    pause_s, asked_bytes = WATCH_S, 0
    try:
        while not (await asyncio.wait({doing}, timeout=pause_s))[0]:
            began_s = time.monotonic()
            size_bytes = await _size_bytes(folder)
            if size_bytes > max_bytes:
                raise too_large(max_bytes)
            come_bytes = size_bytes - before_bytes
            if come_bytes - asked_bytes > SMALL_BYTES or _is_nearly_full(folder):
                asked_bytes = come_bytes
                await _require_room(more, come_bytes, folder)
            pause_s = max(WATCH_S, WATCH_SHARE * (time.monotonic() - began_s))
        return doing.result()
    finally:
        doing.cancel()
        await asyncio.gather(doing, return_exceptions=True)


async def _require_room(more: More | None, come_bytes: int, folder: Path) -> None:
    """What is small has not filled the disk: that were others, and it passes."""
    full = None
    if more is not None:
        try:
            await more(come_bytes)
            return
        except DiskFull as e:
            if come_bytes <= SMALL_BYTES:
                raise
            full = e
    if come_bytes > SMALL_BYTES and (full or _is_nearly_full(folder)):
        message = f"The repository is too large for this disk: {folder} has hardly any room left"
        raise RepositoryTooLarge(message, hint=HINT) from full


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
