"""Connections to Redis servers, each lent to one command at a time: made by the redis library, and used by us.

The library's own client and pool cost two asyncio tasks and a turn of the event loop more per command, and up to
Python 3.11 its time-out (`asyncio.wait_for`) can swallow a cancellation (gh-86296). So the time-outs are ours: one
around a connection's making, one for a command and its replies; a connection whose command did not end well is closed.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

from redis.asyncio.connection import AbstractConnection
from redis.exceptions import ConnectionError, RedisError

from ..errors import TransportError
from ..watching import UNWATCHED, StoreWatch
from .exchange import Command, Exchange
from .faults import translated
from .places import Address

Dial = Callable[[Address], AbstractConnection]


@dataclass(slots=True, eq=False)
class _Line:
    """A connection; without an exchange it does not stand."""

    connection: AbstractConnection
    exchange: Exchange | None = None

    async def hang_up(self) -> None:
        self.exchange = None
        await self.connection.disconnect(nowait=True)


class Connections:
    """As many connections to each server as there are commands under way there."""

    def __init__(self, dial: Dial, watch: StoreWatch = UNWATCHED) -> None:
        self._dial = dial
        self._watch = watch
        self._open: set[_Line] = set()
        self._idle: dict[Address, list[_Line]] = {}
        self._closed = False

    async def execute(self, address: Address, commands: Sequence[Command], timeout_s: float) -> list[Any]:
        """The replies, in one round trip; an error in one of them is raised, and the other replies are lost.

        `NotTaken` when there is no connection to be had; else what the library raises.
        """
        if self._closed:
            raise TransportError("the transport is closed", hint="connect again")
        idle = self._idle.setdefault(address, [])
        line = idle.pop() if idle else self._new(address)
        try:
            exchange = line.exchange
            if exchange is None or exchange.is_lost:
                async with asyncio.timeout(timeout_s):
                    exchange = await _connected(line)
                    self._tell_of_certificate(exchange)
            return await _answered(line, exchange, commands, timeout_s)
        finally:
            if self._idle.get(address) is idle:
                idle.append(line)
            else:  # this server was dropped meanwhile
                await self._close(line)

    async def ask(self, address: Address, *command: str, timeout_s: float) -> Any:
        """One command to whoever is there; all its errors are ours."""
        try:
            return (await self.execute(address, [command], timeout_s))[0]
        except (RedisError, OSError) as error:
            raise translated(error) from error

    async def drop(self, address: Address) -> None:
        """Close what lies idle: when one connection to a server is lost, so are the others, mostly."""
        for line in self._idle.pop(address, ()):
            await self._close(line)

    async def close(self) -> None:
        self._closed = True
        self._idle = {}
        for line in list(self._open):
            await self._close(line)

    def _tell_of_certificate(self, exchange: Exchange) -> None:
        if ends_at := exchange.certificate_ends_at:
            self._watch.certificate(ssl.cert_time_to_seconds(ends_at))

    def _new(self, address: Address) -> _Line:
        line = _Line(self._dial(address))
        self._open.add(line)
        return line

    async def _close(self, line: _Line) -> None:
        self._open.discard(line)
        await line.hang_up()


async def _connected(line: _Line) -> Exchange:
    """Before anything is sent: who fails here knows that the server has not taken the command."""
    await line.hang_up()
    try:
        await line.connection.connect()
    except (RedisError, OSError) as error:
        raise translated(error, sent=False) from error
    line.exchange = _taken_over(line.connection)
    return line.exchange


def _taken_over(connection: AbstractConnection) -> Exchange:
    """The exchange over a connection that the library has made: it has no public way to its sockets and its errors."""
    raw = cast(Any, connection)
    stream = raw._reader
    return Exchange(raw._writer.transport, raw._parser.parse_error, early=bytes(stream._buffer), is_lost=stream._eof)


async def _answered(line: _Line, exchange: Exchange, commands: Sequence[Command], timeout_s: float) -> list[Any]:
    try:
        replies = await exchange.ask(commands, timeout_s)
    except BaseException:  # the replies that were not read would answer the next command
        await line.hang_up()
        raise
    for reply in replies:
        if isinstance(reply, Exception):
            if isinstance(reply, ConnectionError):
                await line.hang_up()
            raise reply
    return replies
