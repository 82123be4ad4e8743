"""Ends a handler that takes its process from all others: by one step that holds the event loop, in which no other task
goes on, or by memory, for want of which the kernel would end them all.

What a handler reads is bounded where it is read. This is for the bound that somebody forgot: a pattern that tries
everything, a loop over what strangers wrote, a text that becomes a thousand times as long.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import resource
import signal
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from types import FrameType
from typing import Any, cast

from envelope.errors import ErrorCode
from envelope.logs import get_logger

from .errors import TransportError

MAX_STEP_S = 5.0  # of processor time; the longest of ordinary work takes a tenth of it
LOOK_S = 0.5  # so often, by the process's processor time: an idle one is never woken
SHOWN_FRAMES = 12
MEMORY_SHARE = 0.75  # of the machine's or the container's
MIN_MEMORY_BYTES = 1 << 30  # with less, a worker does not start
LIMIT_FILES = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")  # of a container

_log = get_logger("watchdog")
_watched: ContextVar[bool] = ContextVar("watched", default=False)
_STEP: Any = asyncio.Handle._run.__code__  # of the frame that each step of an event loop has at its bottom
_IMPORT = "<frozen importlib._bootstrap>"


class HeldUp(BaseException):
    """Raised within the step. No `Exception`: who goes on with the next of many after any failure would do it again."""


class StepTooLong(TransportError):
    code = ErrorCode.BAD_INPUT


@contextmanager
def watched_steps() -> Generator[None]:
    """`StepTooLong` for whatever runs in here, also in tasks that are started here, and holds the loop for too long."""
    before = _watched.set(True)
    try:
        yield
    except BaseException as e:
        if not _is_held_up(e):
            raise
        raise StepTooLong(
            f"one step of this task took more than {MAX_STEP_S:g} s of its process's time, and was ended",
            hint="the log of the worker says where; ask for less at once, and tell us what it was",
        ) from e
    finally:
        _watched.reset(before)


def bound_memory() -> None:
    """Of this process, from now on: what asks for more gets a `MemoryError`, which ends one task alone."""
    sizes = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for file in LIMIT_FILES:
        with suppress(OSError, ValueError):  # there is none, or it says `max`
            sizes.append(int(Path(file).read_text()))
    limit_bytes = max(MIN_MEMORY_BYTES, int(min(sizes) * MEMORY_SHARE))
    _, most_bytes = resource.getrlimit(resource.RLIMIT_DATA)
    if most_bytes == resource.RLIM_INFINITY or limit_bytes < most_bytes:
        resource.setrlimit(resource.RLIMIT_DATA, (limit_bytes, most_bytes))


def allow_most_files() -> None:
    """As many open files as this user may have: logins and services begin with 1,024, and each repository that is
    worked on is one."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def watch_steps() -> None:
    """In this process from now on; called by its main thread, which is to run the event loop."""
    signal.signal(signal.SIGPROF, _Watchdog().look)
    signal.siginterrupt(signal.SIGPROF, False)  # calls of other threads to the kernel go on
    signal.setitimer(signal.ITIMER_PROF, LOOK_S, LOOK_S)
    atexit.register(signal.setitimer, signal.ITIMER_PROF, 0)  # at its end Python takes no signals, and dies of one


class _Watchdog:
    """Runs as a signal's handler, in the step that it looks at: patterns of `re` ask for signals, too."""

    def __init__(self) -> None:
        self._step: FrameType | None = None  # held, so that no other step's frame can be taken for it
        self._since_s = 0.0

    def look(self, _signal: int, frame: FrameType | None) -> None:
        frames = [*_outwards(frame)]
        step = next((each for each in frames if each.f_code is _STEP), None)
        now_s = time.thread_time()
        if step is not self._step:
            self._step, self._since_s = step, now_s
        elif step is not None and _watched.get() and now_s - self._since_s > MAX_STEP_S - LOOK_S:
            if any(each.f_code.co_filename == _IMPORT for each in frames):  # nobody's input
                return
            self._since_s = now_s  # what cleans up has as long again
            places = [f"{each.f_code.co_filename}:{each.f_lineno}" for each in frames[:SHOWN_FRAMES]]
            _log.error("step_held_up", after_s=MAX_STEP_S, at=places)
            raise HeldUp


def _outwards(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


def _is_held_up(error: BaseException) -> bool:
    if isinstance(error, BaseExceptionGroup):
        return any(map(_is_held_up, cast(BaseExceptionGroup[BaseException], error).exceptions))
    return isinstance(error, HeldUp)
