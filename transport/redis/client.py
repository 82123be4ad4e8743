"""Connections to one Redis, with explicit time-outs, and nothing of the redis library behind them but bytes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any, cast

import redis.asyncio
import redis.exceptions as faults
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from ..errors import Misconfigured, QueueFull, TransportError, Unreachable
from .script import Script

CONNECT_TIMEOUT_S = 5.0
# The longest script (a submit of 10,000 tasks) holds the server for well under a second.
COMMAND_TIMEOUT_S = 15.0
# An idle reader comes back this often: it then costs the server 0.1 commands/s, and hears of a dead peer.
MAX_BLOCK_S = 10.0
# Above MAX_BLOCK_S, else every quiet read would look like a lost server.
BLOCK_TIMEOUT_S = MAX_BLOCK_S + 10.0
# About 1.5 s in all: a server that restarts is back, one that is gone should be reported soon.
RETRY_PAUSES_S = (0.05, 0.1, 0.2, 0.4, 0.8)
# A cancelled command is put down at once, or was swallowed and needs telling again.
SWALLOWED_AFTER_S = 0.05
MIN_VERSION = (6, 2)

Command = tuple[str | bytes | int | float, ...]


class Client:
    """Two pools of connections: for commands, and for reads that block."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._commands = _pool(url, COMMAND_TIMEOUT_S)
        self._blocking = _pool(url, BLOCK_TIMEOUT_S)

    async def call(self, *command: str | bytes | int | float) -> Any:
        """One command that is safe to repeat; `Unreachable` when no server answers for a while."""
        return await self._patiently(lambda: _execute(self._commands, command))

    async def run(self, script: Script, prefix: str, arguments: bytes, *, repeatable: bool = False) -> Any:
        """Run a script; loads it first where the server does not know it (a restart, a failover, SCRIPT FLUSH).

        Only a repeatable one is sent again when its answer was lost.
        """

        async def once() -> Any:
            try:
                return await _execute(self._commands, ("EVALSHA", script.sha, 1, prefix, arguments))
            except faults.NoScriptError:
                return await _execute(self._commands, ("EVAL", script.source, 1, prefix, arguments))

        return await (self._patiently(once) if repeatable else _translated(once))

    async def read_many(self, commands: Sequence[Command]) -> list[Any]:
        """Reads in one round trip."""

        async def once() -> list[Any]:
            async with self._commands.pipeline(transaction=False) as pipe:
                for command in commands:
                    cast(Any, pipe).execute_command(*command)
                return await pipe.execute()

        return await self._patiently(once) if commands else []

    async def block(self, *command: str | bytes | int | float) -> Any:
        """A read that may block, at most MAX_BLOCK_S, on a connection of its own."""
        return await _translated(lambda: _execute(self._blocking, command))

    async def check(self) -> None:
        """Refuse a server that is too old, or one that would drop keys when its memory is full."""
        info = cast(dict[str, Any], await self.call("INFO"))
        version = str(info["redis_version"])
        if tuple(int(part) for part in version.split(".")[:2]) < MIN_VERSION:
            raise Misconfigured(f"the Redis server is {version}, older than 6.2", hint="upgrade the Redis server")
        policy = info.get("maxmemory_policy", "noeviction")
        if policy != "noeviction":
            raise Misconfigured(
                f"the Redis server would drop tasks when its memory is full: its maxmemory-policy is {policy}",
                hint="run: redis-cli config set maxmemory-policy noeviction",
            )

    async def close(self) -> None:
        for pool in (self._commands, self._blocking):
            await pool.aclose(close_connection_pool=True)

    async def _patiently(self, once: Callable[[], Awaitable[Any]]) -> Any:
        for pause_s in RETRY_PAUSES_S:
            try:
                return await _translated(once)
            except Unreachable:
                await asyncio.sleep(pause_s)
        return await _translated(once)


def options(url: str, timeout_s: float) -> dict[str, Any]:
    """What every connection of ours is made with, beside its retry object (which the library has in two kinds)."""
    timeouts = {"socket_timeout": timeout_s, "socket_connect_timeout": CONNECT_TIMEOUT_S}
    # a unix socket has no keepalive, and refuses the option
    return timeouts if url.startswith("unix:") else {**timeouts, "socket_keepalive": True}


def _pool(url: str, timeout_s: float) -> redis.asyncio.Redis:
    factory = cast(Callable[..., redis.asyncio.Redis], redis.asyncio.Redis.from_url)  # pyright: ignore[reportUnknownMemberType]
    # which commands may be repeated is decided here, not in the library
    return factory(url, retry=Retry(NoBackoff(), 0), **options(url, timeout_s))


async def _execute(pool: redis.asyncio.Redis, command: Command) -> Any:
    return await cast(Any, pool).execute_command(*command)


async def _translated(once: Callable[[], Awaitable[Any]]) -> Any:
    with translated():
        return await _cancellable(once)


async def _cancellable(once: Callable[[], Awaitable[Any]]) -> Any:
    """Await the library in a task of its own, so that a cancellation always reaches the caller.

    The library sends through `asyncio.wait_for`, which up to Python 3.11 swallows a cancellation that comes in the
    very moment in which the send is done (gh-86296): the caller would go on, or block on the doorbell.
    """
    inner = asyncio.ensure_future(once())
    try:
        return await asyncio.shield(inner)
    except asyncio.CancelledError:
        while not inner.done():
            inner.cancel()
            await asyncio.wait({inner}, timeout=SWALLOWED_AFTER_S)
        raise


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
