"""Connections to Redis servers, each lent to one command at a time, over the redis library's `Connection`.

The library's own client and pool cost two asyncio tasks and a turn of the event loop more per command, and up to
Python 3.11 its time-out (`asyncio.wait_for`) can swallow a cancellation (gh-86296). So the time-out stands here, around
the whole command; a connection whose command did not end well closes itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, cast

from redis.asyncio.connection import AbstractConnection
from redis.exceptions import RedisError

from ..errors import TransportError
from .faults import translated
from .places import Address

Command = tuple[str | bytes | int | float, ...]
Dial = Callable[[Address], AbstractConnection]


class Connections:
    """As many connections to each server as there are commands under way there."""

    def __init__(self, dial: Dial) -> None:
        self._dial = dial
        self._open: set[AbstractConnection] = set()
        self._idle: dict[Address, list[AbstractConnection]] = {}
        self._closed = False

    async def execute(self, address: Address, commands: Sequence[Command], timeout_s: float) -> list[Any]:
        """The replies, in one round trip; an error in one of them is raised, and the other replies are lost.

        `NotTaken` when there is no connection to be had; else what the library raises.
        """
        if self._closed:
            raise TransportError("the transport is closed", hint="connect again")
        idle = self._idle.setdefault(address, [])
        connection = idle.pop() if idle else self._new(address)
        try:
            async with asyncio.timeout(timeout_s):
                await _connected(connection)
                return await _exchange(connection, commands)
        finally:
            if self._idle.get(address) is idle:
                idle.append(connection)
            else:  # this server was dropped meanwhile
                await self._close(connection)

    async def ask(self, address: Address, *command: str, timeout_s: float) -> Any:
        """One command to whoever is there; all its errors are ours."""
        try:
            return (await self.execute(address, [command], timeout_s))[0]
        except (RedisError, OSError) as error:
            raise translated(error) from error

    async def drop(self, address: Address) -> None:
        """Close what lies idle: when one connection to a server is lost, so are the others, mostly."""
        for connection in self._idle.pop(address, ()):
            await self._close(connection)

    async def close(self) -> None:
        self._closed = True
        self._idle = {}
        for connection in list(self._open):
            await self._close(connection)

    def _new(self, address: Address) -> AbstractConnection:
        connection = self._dial(address)
        self._open.add(connection)
        return connection

    async def _close(self, connection: AbstractConnection) -> None:
        self._open.discard(connection)
        await connection.disconnect(nowait=True)


async def _connected(connection: AbstractConnection) -> None:
    """Before anything is sent: who fails here knows that the server has not taken the command."""
    # the library's own check for a server that went away meanwhile costs a turn of the event loop
    reader: asyncio.StreamReader | None = getattr(connection, "_reader", None)
    if reader is not None and (reader.at_eof() or reader.exception() is not None):
        await connection.disconnect(nowait=True)
        reader = None
    if reader is None:
        try:
            await connection.connect()
        except (RedisError, OSError) as error:
            raise translated(error, sent=False) from error


async def _exchange(connection: AbstractConnection, commands: Sequence[Command]) -> list[Any]:
    raw = cast(Any, connection)
    await raw.send_packed_command([part for command in commands for part in raw.pack_command(*command)])
    try:
        return [await raw.read_response() for _ in commands]
    except BaseException:
        if len(commands) > 1:  # the replies that were not read would answer the next command
            await connection.disconnect(nowait=True)
        raise
