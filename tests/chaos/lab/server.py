"""A Redis that a test may kill and start again: the same place, the same append-only file, the users that we ship."""

from __future__ import annotations

import asyncio
import ctypes
import shutil
import signal
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import redis

from transport.embedded import find_server

from .users import OPERATOR, lab_users

START_TIMEOUT_S = 30.0
_PR_SET_PDEATHSIG = 1  # linux/prctl.h
_LIBC = ctypes.CDLL(None)


class Server:
    def __init__(
        self,
        folder: Path,
        port: int,
        *,
        program: Path | None = None,
        arguments: Sequence[str] = (),
        ready: str = "Ready to accept connections",
        users: Path | None = None,
    ) -> None:
        """`arguments`: more of the command line; `ready`: what its log says when it takes commands; `users`: another
        file than the shipped one."""
        self.port = port
        self.url = self.url_of("orchestrator")
        self._folder = folder
        self._copy = folder.with_name(f"{folder.name}-copy")
        settings = _settings(folder, port, users or lab_users().server_file)
        self._command = [str(program or find_server()), *arguments, *settings]
        self._ready = ready
        self._client = redis.Redis(port=port, username=OPERATOR, password=OPERATOR)
        self._process: asyncio.subprocess.Process | None = None
        self._log: list[str] = []
        self._logged = asyncio.Condition()
        self._reading: asyncio.Task[None] | None = None

    def url_of(self, role: str, *, port: int = 0) -> str:
        """How a role comes in, here or by way of a proxy at another port."""
        return f"redis://{lab_users().sign_in(role)}127.0.0.1:{port or self.port}/0"

    async def start(self) -> None:
        """Returns when it takes commands."""
        self._folder.mkdir(parents=True, exist_ok=True)
        self._log.clear()
        self._process = await asyncio.create_subprocess_exec(
            *self._command, stdout=asyncio.subprocess.PIPE, preexec_fn=die_with_parent
        )
        self._reading = asyncio.create_task(self._read(self._process))
        await self.says(self._ready)

    async def says(self, text: str, *, timeout_s: float = START_TIMEOUT_S) -> None:
        """Wait until its log, which is its standard output here, has a line with this text."""
        async with asyncio.timeout(timeout_s), self._logged:
            await self._logged.wait_for(lambda: any(text in line for line in self._log))

    @property
    def said(self) -> str:
        """Its log since its start."""
        return "".join(self._log)

    async def kill(self) -> None:
        """SIGKILL: what the kernel has of the append-only file stays, as it does when a process crashes."""
        assert self._process
        assert self._reading
        self._process.kill()
        await self._process.wait()
        await self._reading

    async def stop(self) -> None:
        self._client.close()
        if self._process and self._process.returncode is None:
            await self.kill()

    def pause(self) -> None:
        """SIGSTOP: connected, and silent."""
        assert self._process
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        assert self._process
        self._process.send_signal(signal.SIGCONT)

    def remember(self) -> None:
        """Keep a copy of the append-only file as it is now."""
        shutil.rmtree(self._copy, ignore_errors=True)
        shutil.copytree(self._folder, self._copy)

    def roll_back(self) -> None:
        """Between kill and start: forget what came after `remember`, as a failover to a replica that lags does."""
        shutil.rmtree(self._folder)
        shutil.copytree(self._copy, self._folder)

    def call(self, *command: Any) -> Any:
        """One command from the side, past all proxies, as a user of the tests' own, on a connection that stays."""
        return self._client.execute_command(*command)

    async def _read(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout
        while line := await process.stdout.readline():
            async with self._logged:
                self._log.append(line.decode(errors="replace"))
                self._logged.notify_all()


def _settings(folder: Path, port: int, users: Path) -> list[str]:
    settings = {
        "port": port,
        "bind": "127.0.0.1",
        "dir": folder,
        "aclfile": users,
        "appendonly": "yes",
        # The one setting that is not as docs/redis.md has it. With `everysec` Redis answers up to two seconds before it
        # writes, as long as the disk is at an earlier sync: a slow disk, and not Muster, would lose what was
        # acknowledged.
        "appendfsync": "no",
        "save": "",
        "maxmemory-policy": "noeviction",
    }
    return [str(text) for name, value in settings.items() for text in (f"--{name}", value)]


@asynccontextmanager
async def redis_server(folder: Path, **options: Any) -> AsyncIterator[Server]:
    server = Server(folder, free_port(), **options)
    try:
        await server.start()
        yield server
    finally:
        await server.stop()
        shutil.rmtree(folder, ignore_errors=True)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def die_with_parent() -> None:
    """Runs in a child before exec, or after a fork: nothing that a test started outlives it."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
