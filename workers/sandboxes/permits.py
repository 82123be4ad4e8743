"""How many commands run at once on this host, whichever of its worker processes runs them.

Agents mostly wait for models, and may be many; commands compute, and cores are few. So a command of an agent or a
recipe takes a permit before it begins, and what waits begins in turn: whose task has the fewest running goes first,
then who has waited longest. A permit is a lock on a file of the fleet's state folder, which the kernel takes back from
a process that dies.

A limit that counts commands counts those that sleep as well. So one more may begin whenever the machine has a core to
spare, and no command waits for longer than `patience_s`: other programs may keep the machine busy.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import time
import weakref
from collections import Counter
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from transport.state_folder import private_folder

PER_CORE = 4  # a command reads files and starts programs, too
PATIENCE_S = 60.0
LOOK_EVERY_S = 0.02  # for a permit that another process has given back
MEASURE_S = 0.1  # over which a machine is idle or busy
SPARE_CORES = 0.5
IDLE, IOWAIT = 3, 4  # of the numbers in /proc/stat


@dataclass(eq=False, slots=True)
class _Waiting:
    task_id: str
    until_s: float
    turn: asyncio.Future[int | None]


@dataclass(eq=False)
class CommandPermits:
    """`folder` is shared by all who share the limit. `spare_cores` tells how many were idle since it was last asked."""

    folder: Path
    count: int
    spare_cores: Callable[[], float] = field(default_factory=lambda: SpareCores())
    patience_s: float = PATIENCE_S
    _files: list[int] | None = None
    _held: set[int] = field(default_factory=set[int])
    _running: Counter[str] = field(default_factory=Counter[str])
    _line: list[_Waiting] = field(default_factory=list[_Waiting])
    _usher: asyncio.Task[None] | None = None
    _given_back: asyncio.Event = field(default_factory=asyncio.Event)

    @asynccontextmanager
    async def permit(self, task_id: str) -> AsyncGenerator[None]:
        """Held while a command of the task runs. Whoever is cancelled while it waits takes none."""
        taken = self._take() if not self._line else None
        if taken is None:
            taken = await self._turn(task_id)
        self._running[task_id] += 1
        try:
            yield
        finally:
            self._running[task_id] -= 1
            self._running += Counter()  # without those that have none
            self._give_back(taken)

    async def _turn(self, task_id: str) -> int | None:
        """None: it begins without one."""
        waiting = _Waiting(task_id, time.monotonic() + self.patience_s, asyncio.get_running_loop().create_future())
        self._line.append(waiting)
        if self._usher is None or self._usher.done():
            self._usher = asyncio.create_task(self._let_in())
        try:
            return await waiting.turn
        except asyncio.CancelledError:
            if waiting.turn.done() and not waiting.turn.cancelled():
                self._give_back(waiting.turn.result())
            raise
        finally:
            with suppress(ValueError):
                self._line.remove(waiting)

    async def _let_in(self) -> None:
        """One after the other, as long as somebody waits."""
        measured_s = time.monotonic()
        self.spare_cores()
        while self._line:
            self._given_back.clear()
            first = min(self._line, key=lambda each: self._running[each.task_id])  # of equals the one that came first
            now_s, taken = time.monotonic(), self._take()
            is_spare = False
            if taken is None and now_s - measured_s >= MEASURE_S:
                measured_s, is_spare = now_s, self.spare_cores() >= SPARE_CORES
            overdue = [each for each in self._line if each.until_s <= now_s]
            if taken is not None or is_spare:
                self._admit(first, taken)
            elif overdue:
                self._admit(overdue[0], None)
            else:
                with suppress(TimeoutError):
                    async with asyncio.timeout(LOOK_EVERY_S):
                        await self._given_back.wait()
            await asyncio.sleep(0)  # whoever was let in counts as running before the next is chosen

    def _admit(self, waiting: _Waiting, taken: int | None) -> None:
        self._line.remove(waiting)
        if waiting.turn.done():  # cancelled just now
            self._give_back(taken)
        else:
            waiting.turn.set_result(taken)

    def _take(self) -> int | None:
        if self._files is None:
            private_folder(self.folder)
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
            self._files = [os.open(self.folder / str(number), flags, 0o600) for number in range(self.count)]
            for file in self._files:
                weakref.finalize(self, os.close, file)
        for file in self._files:
            if file not in self._held:
                with suppress(BlockingIOError):
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    self._held.add(file)
                    return file
        return None

    def _give_back(self, taken: int | None) -> None:
        if taken is not None:
            fcntl.flock(taken, fcntl.LOCK_UN)
            self._held.remove(taken)
            self._given_back.set()


def permits_of(state_dir: Path) -> CommandPermits:
    """For all workers of one fleet on this host."""
    return CommandPermits(state_dir / "commands", PER_CORE * len(os.sched_getaffinity(0)))


@dataclass(slots=True)
class SpareCores:
    """How many cores of this machine were idle, on average, since it was last asked."""

    _before: tuple[int, int] = (0, 0)

    def __call__(self) -> float:
        with Path("/proc/stat").open() as stat:
            ticks = [int(word) for word in stat.readline().split()[1:9]]
        idle, total = ticks[IDLE] + ticks[IOWAIT], sum(ticks)
        was_idle, was_total = self._before
        self._before = idle, total
        return (idle - was_idle) / max(1, total - was_total) * (os.cpu_count() or 1)
