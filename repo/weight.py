"""The size of a commit's files, before any of them is written: a few kilobytes of history can name billions."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

from .errors import CheckoutFailed, DiskFull, OutputTooLarge
from .git import GIB, git

# A million paths of 75 characters, twice what the largest repositories of the world have.
MAX_LISTING_BYTES = 128 * 1024 * 1024
MIB = 1024 * 1024
MAX_FILES_BYTES = 32 * GIB
HINT = "give the task a smaller repository"


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
    free_bytes = shutil.disk_usage(folder).free
    if total_bytes > free_bytes:
        left, takes = f"{free_bytes / MIB:,.0f} MiB are left", f"{total_bytes / MIB:,.0f}"
        message = f"The disk is full: no space left in {folder}: {left}, and commit {short} takes {takes}"
        raise DiskFull(message, hint="free some: `muster sandbox prune`; or move the state folder to a larger disk")


def _total_bytes(listed: bytes) -> int:
    """Of what has a size: no submodule has, and no object that is missing."""
    sizes = (entry.partition(b"\t")[0].rpartition(b" ")[2] for entry in listed.split(b"\0"))
    return sum(int(size) for size in sizes if size.isdigit())
