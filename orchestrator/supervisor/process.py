"""One program that is kept running: started again with a growing pause whenever it ends, until it is told to stop."""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import sys
from asyncio.subprocess import DEVNULL, Process
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

from envelope.logs import get_logger

# A worker that drains gives its tasks back and removes their containers within this time; then it is killed, and the
# next start's reaper removes what is left.
GRACE_S = 20.0
FIRST_PAUSE_S = 0.2
LONGEST_PAUSE_S = 30.0
# Who lived this long was well: its next death starts again from the shortest pause.
WELL_AFTER_S = 60.0
# A log is moved aside at the next start of its program once it is larger: two files per program at most.
MAX_LOG_BYTES = 10 * 1024 * 1024
TAIL_BYTES = 8 * 1024

PR_SET_PDEATHSIG = 1  # linux/prctl.h

log = get_logger("supervisor")
_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True, slots=True)
class Program:
    """`arguments` follow the Python interpreter that runs us."""

    name: str
    arguments: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Death:
    """One ended run. `exit_code` is negative when a signal ended it; `said` is the end of what it wrote."""

    program: Program
    exit_code: int
    said: str
    log_path: Path


class RestartingProcess:
    """`pid` is that of the present run, 0 between two runs. `on_death` hears of every death."""

    def __init__(
        self, program: Program, *, log_folder: Path, environment: Mapping[str, str], on_death: Callable[[Death], None]
    ) -> None:
        self.program = program
        self.pid = 0
        self.log_path = log_folder / f"{program.name}.log"
        self._environment = {**environment, "PYTHONSAFEPATH": "1"}  # a checkout must never shadow our packages
        self._on_death = on_death

    async def run(self) -> None:
        """Keep it running until this call is cancelled; then end it, gently first."""
        pause_s = FIRST_PAUSE_S
        while True:
            started = monotonic()
            death = await self._run_once()
            log.warning("program_ended", program=self.program.name, exit_code=death.exit_code)
            self._on_death(death)
            pause_s = FIRST_PAUSE_S if monotonic() - started > WELL_AFTER_S else pause_s
            await asyncio.sleep(pause_s)
            pause_s = min(pause_s * 2, LONGEST_PAUSE_S)

    async def _run_once(self) -> Death:
        _rotate(self.log_path)
        with self.log_path.open("ab") as output:
            begin = output.tell()
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                *self.program.arguments,
                stdin=DEVNULL,
                stdout=output,
                stderr=output,
                env=self._environment,
                start_new_session=True,  # an interrupt at the terminal reaches the supervisor alone, which drains
                preexec_fn=_end_with_parent,
            )
        self.pid = process.pid
        log.info("program_started", program=self.program.name, pid=process.pid)
        try:
            code = await process.wait()
        except asyncio.CancelledError:
            await _end(process)
            raise
        finally:
            self.pid = 0
        return Death(self.program, code, _tail(self.log_path, begin), self.log_path)


def _end_with_parent() -> None:
    """Runs in the child: when the supervisor is killed, its programs get SIGTERM from the kernel and drain."""
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


async def _end(process: Process) -> None:
    try:
        process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(GRACE_S):
            await process.wait()
    except ProcessLookupError:
        return
    except TimeoutError:
        # Its own session: what it may have started goes with it.
        os.killpg(process.pid, signal.SIGKILL)
        await process.wait()


def _rotate(path: Path) -> None:
    if path.exists() and path.stat().st_size > MAX_LOG_BYTES:
        path.replace(path.with_suffix(".log.1"))


def _tail(path: Path, begin: int) -> str:
    with path.open("rb") as lines:
        size = lines.seek(0, os.SEEK_END)
        lines.seek(max(begin, size - TAIL_BYTES))
        return lines.read().decode("utf-8", "replace")


async def end_of(pid: int) -> None:
    """Return when no process of this id runs any more, though it is not ours to reap; at once when none does."""
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
