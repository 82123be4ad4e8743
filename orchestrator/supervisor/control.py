"""The control socket of a fleet: as long as any client is connected to it, the fleet is wanted.

Each client is told the fleet's status, one JSON line, as soon as there is one: what runs, or why the start failed. It
may send requests, one JSON line each:

    {"do": "stay"}             live on without clients
    {"do": "stop"}             stop now; the end of the connection says that it is done
    {"do": "stop_if_unused"}   stop if nobody else needs the fleet (so that it can be started with other settings);
                               the answer is `{"stopped": false}` if somebody does
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import socket
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from transport.embedded import prepare_folder, socket_path, tidy_folder
from transport.state_folder import private_folder, require_private

from .errors import AlreadyRuns

MAX_LINE_BYTES = 64 * 1024
Status = dict[str, Any]


def control_path(state_dir: Path) -> Path:
    """Beside the embedded server's socket, in a folder that only this user may enter."""
    return socket_path(state_dir).with_name("control.sock")


@contextmanager
def state_lock(state_dir: Path) -> Generator[None]:
    """Hold the state folder, or raise `AlreadyRuns` at once. However this process ends, the kernel lets it go."""
    require_private(private_folder(state_dir))
    with (state_dir / "supervisor.lock").open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as e:
            hint = "use the fleet that runs, or stop it with `muster down`"
            raise AlreadyRuns(f"a fleet already runs on {state_dir}", hint=hint) from e
        yield


class ControlSocket:
    """The clients of one fleet and their requests. `changed` is set when one comes, goes or wants the fleet stopped.

    `busy` tells whether any task is alive; until the fleet runs, none is.
    """

    def __init__(self, *, stay: bool = False) -> None:
        self.changed = asyncio.Event()
        self.busy: Callable[[], Awaitable[bool]] = _idle
        self.clients = 0
        self.stay = stay
        self.stopping = False
        self._path: Path | None = None
        self._server: asyncio.Server | None = None
        self._status: asyncio.Future[Status] = asyncio.get_running_loop().create_future()
        self._connections: set[asyncio.Task[None]] = set()

    @property
    def wanted(self) -> bool:
        return self.stay or self.clients > 0

    async def listen(self, path: Path) -> None:
        """Take the address over: the caller holds the lock of the state folder, so whatever is there is dead."""
        prepare_folder(path)
        path.unlink(missing_ok=True)  # noqa: ASYNC240 - one call to the kernel
        self._server = await asyncio.start_unix_server(self._accept, path, limit=MAX_LINE_BYTES)
        self._path = path

    async def adopt(self, connection: socket.socket) -> None:
        """Accept a client that is connected already: whoever started this fleet."""
        self._accept(*await asyncio.open_unix_connection(sock=connection, limit=MAX_LINE_BYTES))

    def publish(self, status: Status) -> None:
        """Tell it to all clients, now and later; only the first counts."""
        if not self._status.done():
            self._status.set_result(status)

    def stop(self) -> None:
        self.stopping = True
        self.changed.set()

    async def until_stopped(self) -> None:
        while not self.stopping:
            self.changed.clear()
            await self.changed.wait()

    async def close(self) -> None:
        """Accept no more clients; those here get the status, if there is one, and the end of their connection."""
        if self._server is not None:
            self._server.close()
        for connection in self._connections:
            connection.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)
        if self._path is not None:
            tidy_folder(self._path)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # Counted in and out here, not in the task: that may be cancelled before its first step.
        self.clients += 1
        self.changed.set()
        self._status.add_done_callback(write_status := _status_writer(writer))
        connection = asyncio.create_task(self._serve(reader, writer))
        self._connections.add(connection)

        def disconnected(connection: asyncio.Task[None]) -> None:
            self._connections.discard(connection)
            self._status.remove_done_callback(write_status)
            writer.close()
            self.clients -= 1
            self.changed.set()

        connection.add_done_callback(disconnected)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while line := await reader.readline():
                await self._handle(json.loads(line), writer)
        except (ConnectionError, ValueError):
            return  # it vanished, or talks nonsense: either way it is no client any more

    async def _handle(self, request: Any, writer: asyncio.StreamWriter) -> None:
        match request:
            case {"do": "stay"}:
                self.stay = True
            case {"do": "stop"}:
                self.stop()
            case {"do": "stop_if_unused"} if self.stay or self.clients > 1 or await self.busy():
                writer.write(b'{"stopped": false}\n')
            case {"do": "stop_if_unused"}:
                self.stop()
            case _:
                pass  # a newer client's request


async def _idle() -> bool:
    return False


def _status_writer(writer: asyncio.StreamWriter) -> Callable[[asyncio.Future[Status]], None]:
    def write_status(status: asyncio.Future[Status]) -> None:
        if not writer.is_closing():
            writer.write(json.dumps(status.result()).encode() + b"\n")

    return write_status
