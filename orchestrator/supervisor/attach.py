"""How a process on this machine gets a fleet: from the supervisor that runs, else from one that it starts."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from envelope.errors import ExitCode
from transport.state_folder import private_folder

from ..settings import Settings
from .control import MAX_LINE_BYTES, control_path
from .environment import different, environment_of, fingerprints
from .errors import FleetError, StartFailed
from .process import end_of
from .programs import refusal

# Two people may start a fleet at once: the loser of the lock goes to the winner's socket, which is there in an instant.
ATTEMPTS = 40
ATTEMPT_PAUSE_S = 0.1
STOP_TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True)
class Attached:
    """`different`: by their names, the settings of the fleet that are others than ours."""

    pid: int
    different: tuple[str, ...]
    writer: asyncio.StreamWriter

    async def request(self, what: str) -> None:
        self.writer.write(json.dumps({"do": what}).encode() + b"\n")
        await self.writer.drain()


def _tell_nobody(_: str) -> None: ...


@asynccontextmanager
async def attached(
    settings: Settings, *, start: bool = True, works: bool = True, tell: Callable[[str], object] = _tell_nobody
) -> AsyncGenerator[Attached]:
    """The fleet of this state folder, kept alive as long as this context is open.

    `works`: it is given work, so that one with other settings, which nobody needs, is started again with ours; `tell`
    hears of that. Settings that no worker starts with are refused before, and the fleet goes on. Who only looks takes
    the one that runs. `StartFailed` when it cannot start; `FleetError` when none runs and `start` is False.
    """
    for _ in range(ATTEMPTS):
        connection = await _connect(settings) or (await _start(settings) if start else None)
        if connection is None:
            raise FleetError("no fleet runs here", hint="start one with `muster up --detach`")
        reader, writer = connection
        try:
            fleet = await _status_of(settings, reader, writer)
            if fleet is not None:
                is_to_change = bool(fleet.different) and start and works
                if is_to_change:
                    await _require_usable(settings)
                if not (is_to_change and await _stopped(fleet, reader)):
                    yield fleet
                    return
                others = ", ".join(fleet.different)
                tell(f"nobody needed the fleet that ran with other settings ({others}); it starts again with these")
        finally:
            writer.close()
        await asyncio.sleep(ATTEMPT_PAUSE_S)  # it was just stopping, or lost the lock to another
    raise FleetError("the fleet starts and stops again", hint=f"look into {settings.state_dir / 'logs'}")


async def is_running(settings: Settings) -> bool:
    """Does anybody listen at this state folder's control socket?"""
    connection = await _connect(settings)
    if connection is not None:
        connection[1].close()
    return connection is not None


async def stop_fleet(settings: Settings) -> bool:
    """Stop the fleet of this state folder and wait until it is gone; False when none ran."""
    connection = await _connect(settings)
    if connection is None:
        return False
    _, writer = connection
    try:
        writer.write(b'{"do": "stop"}\n')
        async with asyncio.timeout(STOP_TIMEOUT_S):
            await end_of(_peer(writer))
    except TimeoutError as e:
        hint = f"look into {settings.state_dir / 'logs'}"
        raise FleetError(f"the fleet did not stop within {STOP_TIMEOUT_S:.0f} s", hint=hint) from e
    finally:
        writer.close()
    return True


def _peer(writer: asyncio.StreamWriter) -> int:
    """The process at the other end, by the kernel's account."""
    credentials = writer.get_extra_info("socket").getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    return int.from_bytes(credentials[:4], sys.byteorder)


Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def _connect(settings: Settings) -> Connection | None:
    try:
        return await asyncio.open_unix_connection(control_path(settings.state_dir), limit=MAX_LINE_BYTES)
    except (FileNotFoundError, ConnectionRefusedError):
        return None


async def _start(settings: Settings) -> Connection:
    return await asyncio.open_unix_connection(sock=_spawn(settings), limit=MAX_LINE_BYTES)


def _spawn(settings: Settings) -> socket.socket:
    """A supervisor in a session of its own, which outlives this process; what comes back is our end of the first
    client's connection, so that nobody has to wait for a socket to appear."""
    ours, theirs = socket.socketpair()
    log_folder = private_folder(settings.state_dir / "logs")
    with theirs, (log_folder / "supervisor.log").open("ab") as output:
        subprocess.Popen(
            [sys.executable, "-m", "orchestrator.supervisor", "--client-fd", str(theirs.fileno())],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=_child_environment(settings),
            pass_fds=(theirs.fileno(),),
            umask=0o077,
            start_new_session=True,
        )
    return ours


async def _status_of(settings: Settings, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Attached | None:
    """The fleet behind this connection; None when it is just ending."""
    line = await reader.readline()
    if not line:
        return None
    status = json.loads(line)
    if "error" in status:
        exit_code = ExitCode(status.get("exit", ExitCode.INFRASTRUCTURE))
        raise StartFailed(status["error"], hint=status.get("hint", ""), exit_code=exit_code)
    theirs = status.get("settings", {})
    return Attached(status["pid"], tuple(different(fingerprints(settings, os.environ), theirs)), writer)


async def _require_usable(settings: Settings) -> None:
    """Workers read their own settings, in a program of theirs."""
    check = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "workers.cli.usable_settings"),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env=_child_environment(settings),
    )
    _, said = await check.communicate()
    if check.returncode:
        hint = "correct the workers' settings; the fleet that runs goes on as it is"
        raise refusal("the check of the workers' settings", check.returncode, said.decode(errors="replace"), hint=hint)


def _child_environment(settings: Settings) -> dict[str, str]:
    return {**environment_of(settings, os.environ), "PYTHONSAFEPATH": "1"}


async def _stopped(fleet: Attached, reader: asyncio.StreamReader) -> bool:
    """Did it stop, because nobody else needs it?"""
    await fleet.request("stop_if_unused")
    return not await reader.readline()
