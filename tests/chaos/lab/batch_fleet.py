"""A whole fleet for batches, as an operator has it: orchestrators and workers in places that are filled again."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from sandbox.bubblewrap import BubblewrapDriver

from .batch_command import BatchCommand
from .server import Server, die_with_parent

COMMANDS = {"orchestrator": ("-m", "orchestrator.service"), "worker": ("-m", "workers.cli.worker", "build")}
# Of what there is to kill, and how often. A tool server, and what keeps it, is a process of a sandbox.
TARGETS = {"orchestrator": 3, "worker": 4, "sandbox": 4, "command": 2, "redis": 1, "connections": 2}


@dataclass
class BatchFleet:
    """`environment` is of all processes; sandboxes are bubblewrap's, so that their processes are seen from here."""

    server: Server
    environment: Mapping[str, str]
    log: Path
    places: tuple[str, ...]
    struck: dict[str, int] = field(default_factory=dict[str, int])
    _ready: set[int] = field(default_factory=set[int])
    _changed: asyncio.Condition = field(default_factory=asyncio.Condition)
    _processes: dict[int, asyncio.subprocess.Process] = field(default_factory=dict[int, asyncio.subprocess.Process])
    _stopping: bool = False

    async def fill(self, place: int) -> None:
        """Returns when nobody is to stand there any more."""
        while not self._stopping:
            process = self._processes[place] = await asyncio.create_subprocess_exec(
                *(sys.executable, *COMMANDS[self.places[place]]),
                env=self._environment_of(self.places[place]),
                stderr=asyncio.subprocess.PIPE,
                preexec_fn=die_with_parent,
            )
            if self._stopping:  # it began while the others were told
                process.terminate()
            assert process.stderr
            with self.log.open("ab") as log:
                while line := await process.stderr.readline():
                    log.write(line)
                    if b"_started" in line:
                        async with self._changed:
                            self._ready.add(place)
                            self._changed.notify_all()
            self._ready.discard(place)
            await process.wait()

    def _environment_of(self, kind: str) -> Mapping[str, str]:
        """Workers sign in as workers."""
        mine = {"MUSTER_REDIS_URL": self.server.url_of("worker")} if kind == "worker" else {}
        return {**self.environment, **mine}

    async def whole(self) -> None:
        """Wait until somebody serves at every place."""
        async with self._changed:
            await self._changed.wait_for(lambda: len(self._ready) == len(self.places))

    async def strike_all(self, command: BatchCommand) -> None:
        """Everything at the same moment, and Redis is back."""
        command.kill()
        for pid in self._of_sandboxes():
            _kill(pid)
        for place in range(len(self.places)):
            self._strike_at(place)
        await self.server.kill()
        await self.server.start()

    async def strike(self, seed: int, pause_s: float, command: BatchCommand) -> None:
        """As fast as what was killed is there again, and has worked for a while; longer where all is slow."""
        chance = random.Random(f"batch {seed}")
        while True:
            since_s = time.monotonic()
            await self.whole()
            await asyncio.sleep(chance.uniform(0, 2 * max(pause_s, time.monotonic() - since_s)))
            [target] = chance.choices(list(TARGETS), weights=list(TARGETS.values()))
            self.struck[target] = self.struck.get(target, 0) + await self._hit(target, chance, command)

    async def _hit(self, target: str, chance: random.Random, command: BatchCommand) -> bool:
        match target:
            case "redis":
                await self.server.kill()
                await self.server.start()
            case "connections":
                self.server.call("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
            case "sandbox":
                pids = self._of_sandboxes()
                return bool(pids) and _kill(chance.choice(pids))
            case "command":
                return command.kill()
            case kind:
                return self._strike_at(chance.choice([at for at, name in enumerate(self.places) if name == kind]))
        return True

    def _strike_at(self, place: int) -> bool:
        self._ready.discard(place)
        return _kill(self._processes[place].pid)

    def _of_sandboxes(self) -> list[int]:
        """Tool servers, and what started them: by the state folder or the program in their command lines."""
        mine, found = {process.pid for process in self._processes.values()}, list[int]()
        for folder in Path("/proc").iterdir():
            with suppress(OSError, ValueError):
                if _descends(int(folder.name), mine) and b"toolserver" in (folder / "cmdline").read_bytes():
                    found.append(int(folder.name))
        return sorted(found)

    async def stop(self) -> None:
        self._stopping = True
        for process in self._processes.values():
            with suppress(ProcessLookupError):
                process.terminate()


@asynccontextmanager
async def batch_fleet(
    server: Server, environment: Mapping[str, str], log: Path, places: tuple[str, ...]
) -> AsyncIterator[BatchFleet]:
    fleet = BatchFleet(server, environment, log, places)
    async with asyncio.TaskGroup() as filling:
        for place in range(len(places)):
            filling.create_task(fleet.fill(place))
        try:
            yield fleet
        finally:
            await fleet.stop()
    state_dir = Path(environment["MUSTER_STATE_DIR"])
    async with BubblewrapDriver(state_dir, "cleaner") as driver:  # what those who were killed last have left
        for owner in {each.owner for each in await driver.known()}:
            await driver.reap(owner=owner, now_s=time.time())


def _kill(pid: int) -> bool:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


def _descends(pid: int, ancestors: set[int]) -> bool:
    while pid > 1 and pid not in ancestors:
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return pid in ancestors
