"""Connections to one Redis, each lent to one command at a time, over the redis library's `Connection`.

The library's own client and pool cost two asyncio tasks and a turn of the event loop more per command, and up to
Python 3.11 its time-out (`asyncio.wait_for`) can swallow a cancellation (gh-86296). So the time-out stands here, around
the whole command; a connection whose command did not end well closes itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, cast

import redis.asyncio
from redis.asyncio.connection import AbstractConnection
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from ..errors import Misconfigured

CONNECT_TIMEOUT_S = 5.0

Command = tuple[str | bytes | int | float, ...]


class Connections:
    """As many connections as there are commands under way."""

    def __init__(self, url: str, timeout_s: float) -> None:
        factory = cast(Callable[..., redis.asyncio.ConnectionPool], redis.asyncio.ConnectionPool.from_url)  # pyright: ignore[reportUnknownMemberType]
        # which commands may be repeated is decided by their callers, not in the library
        try:
            pool = factory(url, retry=Retry(NoBackoff(), 0), **options(url))
        except ValueError as error:
            raise Misconfigured(
                f"the Redis URL cannot be used: {error}", hint="write redis://HOST:PORT/0, rediss://… or unix:///PATH"
            ) from error
        self._make = pool.make_connection
        self._timeout_s = timeout_s
        self._made: list[AbstractConnection] = []
        self._idle: list[AbstractConnection] = []

    async def execute(self, *commands: Command) -> list[Any]:
        """The replies, in one round trip; an error in one of them is raised, and the other replies are lost."""
        connection = self._idle.pop() if self._idle else self._new()
        try:
            async with asyncio.timeout(self._timeout_s):
                if _lost(connection):
                    await connection.disconnect(nowait=True)  # the next command connects again
                return await _exchange(connection, commands)
        finally:
            self._idle.append(connection)

    async def close(self) -> None:
        for connection in self._made:
            await connection.disconnect()

    def _new(self) -> AbstractConnection:
        connection = self._make()
        self._made.append(connection)
        return connection


def options(url: str) -> dict[str, Any]:
    """What every connection of ours is made with."""
    timeouts = {"socket_connect_timeout": CONNECT_TIMEOUT_S}
    # a unix socket has no keepalive, and refuses the option
    return timeouts if url.startswith("unix:") else {**timeouts, "socket_keepalive": True}


def _lost(connection: AbstractConnection) -> bool:
    """Did the server go away while the connection lay idle? The library's own check costs a turn of the event loop."""
    reader: asyncio.StreamReader | None = getattr(connection, "_reader", None)
    return reader is not None and (reader.at_eof() or reader.exception() is not None)


async def _exchange(connection: AbstractConnection, commands: Sequence[Command]) -> list[Any]:
    raw = cast(Any, connection)
    await raw.send_packed_command([part for command in commands for part in raw.pack_command(*command)])
    try:
        return [await raw.read_response() for _ in commands]
    except BaseException:
        if len(commands) > 1:  # the replies that were not read would answer the next command
            await connection.disconnect(nowait=True)
        raise
