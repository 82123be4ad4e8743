"""Programs of a run as values that a test can kill, pause, and wait for."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from .fleet import Fleet
from .server import die_with_parent

ROOT = Path(__file__).parents[3]
START_TIMEOUT_S = 30.0


class Program:
    """One process. Signals go through a file descriptor that means this very process, never a successor's number."""

    def __init__(self, name: str, pid: int) -> None:
        self.name = name
        self.pid = pid
        self.ready = asyncio.Event()
        self.ended = asyncio.Event()
        try:
            self._pidfd = os.pidfd_open(pid)
        except ProcessLookupError:
            self.ended.set()
        else:
            asyncio.get_running_loop().add_reader(self._pidfd, self._on_end)

    def kill(self) -> None:
        self.send(signal.SIGKILL)

    def pause(self) -> None:
        self.send(signal.SIGSTOP)

    def rss_bytes(self) -> int:
        """What it holds in memory now."""
        fields = dict(line.split(":", 1) for line in Path(f"/proc/{self.pid}/status").read_text().splitlines())
        return int(fields["VmRSS"].split()[0]) * 1024

    def open_files(self) -> int:
        return len(list(Path(f"/proc/{self.pid}/fd").iterdir()))

    def terminate(self) -> None:
        self.send(signal.SIGTERM)

    def resume(self) -> None:
        self.send(signal.SIGCONT)

    def send(self, number: signal.Signals) -> None:
        """To one that has ended already it means nothing."""
        if not self.ended.is_set():
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._pidfd, number)

    async def stop(self) -> None:
        """SIGTERM, and wait for the end."""
        self.send(signal.SIGTERM)
        await self.ended.wait()

    async def is_ready(self) -> bool:
        """Wait until it serves; False when it ended instead."""
        waits = [asyncio.ensure_future(self.ready.wait()), asyncio.ensure_future(self.ended.wait())]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED, timeout=START_TIMEOUT_S)
        finally:
            for wait in waits:
                wait.cancel()
        return self.ready.is_set()

    def _on_end(self) -> None:
        asyncio.get_running_loop().remove_reader(self._pidfd)
        os.close(self._pidfd)
        self.ended.set()


class Nursery:
    """Starts programs by way of one template process."""

    def __init__(self, template: asyncio.subprocess.Process) -> None:
        self._template = template
        self._programs: dict[str, asyncio.Future[Program]] = {}
        self._hearing = asyncio.create_task(self._hear())

    async def start(self, program: str, name: str, fleet: Fleet, **arguments: Any) -> Program:
        """Returns when the process exists; `Program.is_ready` says when it serves. Names are used once.

        Workers sign in as workers, all others as the fleet's URL says.
        """
        assert name not in self._programs, f"{name} was started before"
        self._programs[name] = asyncio.get_running_loop().create_future()
        theirs = fleet.of_workers() if program == "worker" else fleet
        order = {"program": program, "name": name, "fleet": theirs.plain(), "arguments": arguments}
        assert self._template.stdin
        self._template.stdin.write(json.dumps(order).encode() + b"\n")
        return await self._programs[name]

    async def close(self) -> None:
        running = [future.result() for future in self._programs.values() if future.done()]
        for program in running:
            program.kill()
        for program in running:
            await program.ended.wait()
        self._template.kill()
        await self._template.wait()
        await self._hearing

    async def _hear(self) -> None:
        assert self._template.stdout
        while line := await self._template.stdout.readline():
            said = json.loads(line)
            if "started" in said:
                self._programs[said["started"]].set_result(Program(said["started"], said["pid"]))
            else:
                # a child may be quicker than the template's word about it
                asyncio.ensure_future(self._programs[said["ready"]]).add_done_callback(
                    lambda started: started.result().ready.set()
                )
        for waited_for in self._programs.values():
            if not waited_for.done():
                waited_for.set_exception(RuntimeError("the template of all programs has ended: see its log"))


@asynccontextmanager
async def nursery(log: Path, *, env: Mapping[str, str] | None = None) -> AsyncIterator[Nursery]:
    """`env`: what stands in the programs' environment beside the test's own."""
    search = [str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", ""), str(ROOT)]
    with log.open("ab") as errors:
        template = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "lab.template",
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=errors,
            env={
                **os.environ,
                **(env or {}),
                "PYTHONPATH": os.pathsep.join(filter(None, search)),
                "PYTHONSAFEPATH": "1",  # not what happens to lie where the test was started
            },
            preexec_fn=die_with_parent,
        )  # fmt: skip
    found = Nursery(template)
    try:
        yield found
    finally:
        await found.close()
