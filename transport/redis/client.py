"""Commands to one Redis, with nothing of the redis library behind them: replies are as the server gave them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any

import redis.exceptions as faults

from ..errors import Misconfigured, QueueFull, TransportError, Unreachable
from .connections import Command, Connections
from .script import Script

# The longest script (a submit of 10,000 tasks) holds the server for well under a second.
COMMAND_TIMEOUT_S = 15.0
# An idle reader comes back this often: it then costs the server 0.1 commands/s, and hears of a dead peer.
MAX_BLOCK_S = 10.0
# Above MAX_BLOCK_S, else every quiet read would look like a lost server.
BLOCK_TIMEOUT_S = MAX_BLOCK_S + 10.0
# About 3 s in all: a server that restarts is back, one that is gone should be reported soon.
RETRY_PAUSES_S = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6)
MIN_VERSION = (6, 2)


class Client:
    """Two kinds of connections: for commands, and for reads that block."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._commands = Connections(url, COMMAND_TIMEOUT_S)
        self._blocking = Connections(url, BLOCK_TIMEOUT_S)

    async def call(self, *command: str | bytes | int | float) -> Any:
        """One command that is safe to repeat; `Unreachable` when no server answers for a while."""
        return (await self.read_many([command]))[0]

    async def run(self, script: Script, prefix: str, arguments: bytes, *, repeatable: bool = False) -> Any:
        """Run a script; loads it first where the server does not know it (a restart, a failover, SCRIPT FLUSH).

        Only a repeatable one is sent again when its answer was lost.
        """

        async def once() -> Any:
            try:
                return (await self._commands.execute(("EVALSHA", script.sha, 1, prefix, arguments)))[0]
            except faults.NoScriptError:
                return (await self._commands.execute(("EVAL", script.source, 1, prefix, arguments)))[0]

        return await (self._patiently(once) if repeatable else _translated(once))

    async def read_many(self, commands: Sequence[Command]) -> list[Any]:
        """Commands that are safe to repeat, in one round trip."""
        return await self._patiently(lambda: self._commands.execute(*commands)) if commands else []

    async def block(self, *command: str | bytes | int | float, repeatable: bool = False) -> Any:
        """A read that may block, at most MAX_BLOCK_S, on a connection of its own; a `repeatable` one survives a
        restart of the server."""

        async def once() -> list[Any]:
            return await self._blocking.execute(command)

        return (await (self._patiently(once) if repeatable else _translated(once)))[0]

    async def check(self) -> None:
        """Refuse a server that is too old, or one that would drop keys when its memory is full."""
        text = (await self.call("INFO")).decode()
        info = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
        version = info["redis_version"]
        if tuple(int(part) for part in version.split(".")[:2]) < MIN_VERSION:
            raise Misconfigured(f"the Redis server is {version}, older than 6.2", hint="upgrade the Redis server")
        policy = info.get("maxmemory_policy", "noeviction")
        if policy != "noeviction":
            raise Misconfigured(
                f"the Redis server would drop tasks when its memory is full: its maxmemory-policy is {policy}",
                hint="run: redis-cli config set maxmemory-policy noeviction",
            )

    async def close(self) -> None:
        for connections in (self._commands, self._blocking):
            await connections.close()

    async def _patiently(self, once: Callable[[], Awaitable[Any]]) -> Any:
        for pause_s in RETRY_PAUSES_S:
            try:
                return await _translated(once)
            except Unreachable:
                await asyncio.sleep(pause_s)
        return await _translated(once)


async def _translated(once: Callable[[], Awaitable[Any]]) -> Any:
    with translated():
        return await once()


@contextmanager
def translated() -> Generator[None]:
    """The redis library's exceptions as ours."""
    try:
        yield
    except (faults.AuthenticationError, faults.NoPermissionError) as error:
        raise Misconfigured(
            f"the Redis server refuses us: {error}", hint="check user and password in the URL"
        ) from error
    except faults.OutOfMemoryError as error:
        raise QueueFull("the Redis server's memory is full", retry_after_s=5.0, hint="raise its maxmemory") from error
    except (faults.ConnectionError, faults.TimeoutError, faults.ReadOnlyError, OSError) as error:
        raise Unreachable(
            f"the Redis server does not answer: {error}", hint="check that it runs and that the URL is right"
        ) from error
    except faults.RedisError as error:
        raise TransportError(f"the Redis server reports: {error}") from error
