"""The socket that keeps a fleet alive: as long as anybody is connected to it, the fleet is wanted.

Each guest is greeted with one JSON line as soon as there is something to say: what runs, or why the start failed. A
guest may wish for something, one JSON line each:

    {"do": "stay"}     live on without guests
    {"do": "stop"}     stop now; the end of the connection says that it is done
    {"do": "renew"}    stop if nobody else needs the fleet (so that it can be started with other settings); the answer
                       is `{"renewed": false}` if somebody does
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from transport.embedded import socket_path

from .errors import FleetError

MAX_LINE_BYTES = 64 * 1024
Greeting = dict[str, Any]


def keep_path(state_dir: Path) -> Path:
    """Beside the embedded server's socket, in a folder that only this user may enter."""
    path = socket_path(state_dir).with_name("keep.sock")
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # In a folder for all, somebody else may have been first.
    for folder in (path.parent, path.parent.parent):
        if folder.stat().st_uid != os.getuid():
            raise FleetError(f"{folder} belongs to another user", hint="set XDG_RUNTIME_DIR to a folder of yours")
    return path


class Keepers:
    """The guests of one fleet and their wishes. `changed` is set whenever one comes, goes or wants it stopped.

    `busy` tells whether any task is alive; until the fleet runs, none is.
    """

    def __init__(self, *, stay: bool = False) -> None:
        self.changed = asyncio.Event()
        self.busy: Callable[[], Awaitable[bool]] = _idle
        self.guests = 0
        self.stay = stay
        self.stopping = False
        self._server: asyncio.Server | None = None
        self._greeting: asyncio.Future[Greeting] = asyncio.get_running_loop().create_future()
        self._talks: set[asyncio.Task[None]] = set()

    @property
    def wanted(self) -> bool:
        return self.stay or self.guests > 0

    async def listen(self, path: Path) -> None:
        """Take the address over: the caller holds the lock of the state folder, so whatever is there is dead."""
        path.unlink(missing_ok=True)  # noqa: ASYNC240 - one call to the kernel
        self._server = await asyncio.start_unix_server(self._receive, path, limit=MAX_LINE_BYTES)

    async def adopt(self, connection: socket.socket) -> None:
        """Receive a guest who brought its connection along: whoever started this fleet."""
        self._receive(*await asyncio.open_unix_connection(sock=connection, limit=MAX_LINE_BYTES))

    def greet(self, greeting: Greeting) -> None:
        """Say it to those who are here and to all who come; only the first counts."""
        if not self._greeting.done():
            self._greeting.set_result(greeting)

    def stop(self) -> None:
        self.stopping = True
        self.changed.set()

    async def until_stopped(self) -> None:
        while not self.stopping:
            self.changed.clear()
            await self.changed.wait()

    async def close(self) -> None:
        """Receive no more guests; those here get the greeting, if there is one, and the end of their connection."""
        if self._server is not None:
            self._server.close()
        for talk in self._talks:
            talk.cancel()
        await asyncio.gather(*self._talks, return_exceptions=True)

    def _receive(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # Received and seen off here, not in the task: that may be cancelled before its first step.
        self.guests += 1
        self.changed.set()
        self._greeting.add_done_callback(greet := _greeter(writer))
        talk = asyncio.create_task(self._talk(reader, writer))
        self._talks.add(talk)

        def see_off(talk: asyncio.Task[None]) -> None:
            self._talks.discard(talk)
            self._greeting.remove_done_callback(greet)
            writer.close()
            self.guests -= 1
            self.changed.set()

        talk.add_done_callback(see_off)

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while line := await reader.readline():
                await self._obey(json.loads(line), writer)
        except (ConnectionError, ValueError):
            return  # it vanished, or talks nonsense: either way it is no guest any more

    async def _obey(self, wish: Any, writer: asyncio.StreamWriter) -> None:
        match wish:
            case {"do": "stay"}:
                self.stay = True
            case {"do": "stop"}:
                self.stop()
            case {"do": "renew"} if self.stay or self.guests > 1 or await self.busy():
                writer.write(b'{"renewed": false}\n')
            case {"do": "renew"}:
                self.stop()
            case _:
                pass  # a newer guest's wish


async def _idle() -> bool:
    return False


def _greeter(writer: asyncio.StreamWriter) -> Callable[[asyncio.Future[Greeting]], None]:
    def greet(greeting: asyncio.Future[Greeting]) -> None:
        if not writer.is_closing():
            writer.write(json.dumps(greeting.result()).encode() + b"\n")

    return greet
