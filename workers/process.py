"""What a process that serves a queue runs on."""

from __future__ import annotations

import asyncio
import ctypes
import gc
from collections.abc import Coroutine
from typing import Any, TypeVar

from transport.watchdog import allow_most_files, bound_memory, watch_steps

Result = TypeVar("Result")

# A task of a worker's makes a few hundred objects and drops them again. Python's 700 would look through them after
# every other task: a tenth of a worker's own time.
YOUNG_OBJECTS = 20_000

# What glibc keeps of freed memory for later, in bytes. Left to itself it raises its limit (of 128 KiB) with each large
# block that is freed, until much of a busy worker's memory (5 of 260 MiB with 100 agents) is nobody's. At those 128 KiB
# a worker in full swing asks the kernel for memory, and gives it back, twice a task: a third of its time. From 512 KiB
# on it never does.
KEPT_BYTES = 1024 * 1024
# Blocks from this size on get pages of their own, which cost a call to the kernel each time.
OWN_PAGES_BYTES = 1024 * 1024
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # of malloc.h


def run(main: Coroutine[Any, Any, Result]) -> Result:
    """Like `asyncio.run`, with a calmer garbage collector, and an allocator that gives back what is free."""
    set_option = getattr(ctypes.CDLL(None), "mallopt", None)  # glibc's
    if set_option is not None:
        set_option(M_TRIM_THRESHOLD, KEPT_BYTES)
        set_option(M_MMAP_THRESHOLD, OWN_PAGES_BYTES)
    watch_steps()
    bound_memory()
    allow_most_files()
    gc.freeze()  # what is imported is never garbage, and with all model providers it is much
    gc.set_threshold(YOUNG_OBJECTS, *gc.get_threshold()[1:])
    return asyncio.run(main)
