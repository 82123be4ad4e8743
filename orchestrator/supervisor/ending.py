"""Waiting for the end of a process that is not ours to reap."""

from __future__ import annotations

import asyncio
import os


async def end_of(pid: int) -> None:
    """Return when no process of this id runs any more; at once when none does."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(handle, ended.set)
    try:
        await ended.wait()
    finally:
        loop.remove_reader(handle)
        os.close(handle)
