"""Commands to the Redis server of one place, with nothing of the redis library behind them: replies as they came."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from redis.exceptions import NoScriptError, RedisError

from ..errors import TransportError, Unconfirmed, Unreachable
from ..watching import UNWATCHED, StoreWatch
from .connections import Command, Connections
from .faults import NotTaken, moved_to, translated
from .places import Address, Place
from .script import Script

# The longest script (a submit of 10,000 tasks) holds the server for well under a second.
COMMAND_TIMEOUT_S = 10.0
# A replica in the same region confirms within a few ms; one that takes longer than this is in trouble.
WAIT_MS = 1_000
# An idle reader comes back this often: it then costs the server 0.1 commands/s, and hears of a dead peer.
MAX_BLOCK_S = 10.0
# On top of what a command may block, else every quiet read would look like a lost server.
BLOCK_MARGIN_S = 5.0
# For so long a client reports to the server that it once got no answer: evidence of an outage (reaping.lua). An older
# report would be about the client's own absence.
TOLD_FOR_S = 60.0
# Of a read that blocks on purpose: how long it took says nothing of the server.
WAITS = "waits"
# About 3 s in all: a server that restarts is back, one that is gone should be reported soon.
START_PAUSES_S = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6)
# About 19 s in all: until Sentinel has found that a master is dead (5 s to 10 s, mostly), and has another in its place.
WORK_PAUSES_S = (*START_PAUSES_S, *8 * (2.0,))


class Client:
    """Sends commands again, as long as it is patient: those that no server took, and those that may be repeated."""

    def __init__(
        self,
        place: Place,
        connections: Connections,
        *,
        pauses_s: Sequence[float] = WORK_PAUSES_S,
        timeout_s: float = COMMAND_TIMEOUT_S,
        watch: StoreWatch = UNWATCHED,
    ) -> None:
        self._place = place
        self._connections = connections
        self._pauses_s = pauses_s
        self._patience_s = sum(pauses_s)
        self._timeout_s = timeout_s
        self._watch = watch
        self._missed_at_s = -math.inf
        self._last_address: Address | None = None

    def missed_ms(self) -> int | None:
        """How long ago this client last got no answer; None if that is not worth telling (any more)."""
        missed_s = time.monotonic() - self._missed_at_s
        return int(missed_s * 1000) if missed_s < TOLD_FOR_S else None

    @property
    def address(self) -> Address | None:
        """Of the server that the next command goes to; the last one's while that is looked for; None: of none yet."""
        return self._place.known or self._last_address

    def hasty(self, pauses_s: Sequence[float] = START_PAUSES_S) -> Client:
        """The same, for those who rather hear soon that there is no server."""
        return Client(self._place, self._connections, pauses_s=pauses_s, timeout_s=self._timeout_s, watch=self._watch)

    async def call(self, *command: str | bytes | int | float, timeout_s: float | None = None) -> Any:
        """One command that is safe to repeat; `Unreachable` when no server answers for a while."""
        wait_s = timeout_s or self._timeout_s
        return (await self._patiently(lambda: self._send([command], wait_s), repeatable=True))[0]

    async def read_many(self, commands: Sequence[Command], *, timeout_s: float | None = None) -> list[Any]:
        """Commands that are safe to repeat, in one round trip."""
        if not commands:
            return []
        wait_s = timeout_s or self._timeout_s
        return await self._patiently(lambda: self._send(commands, wait_s), repeatable=True)

    async def run(
        self, script: Script, prefix: str, arguments: bytes, *, repeatable: bool = False, replicas: int = 0
    ) -> Any:
        """Run a script; loads it first where the server does not know it (a restart, a failover, SCRIPT FLUSH).

        Only a repeatable one is sent again when its answer was lost. `Unconfirmed` when it was done, but so many
        `replicas` did not have it in time.
        """
        wait: list[Command] = [("WAIT", replicas, WAIT_MS)] if replicas else []

        async def once() -> list[Any]:
            call: Command = ("EVALSHA", script.sha, 1, prefix, arguments)
            try:
                replies = await self._send([call, *wait], self._timeout_s, script.name)
            except NoScriptError:
                call = ("EVAL", script.source, 1, prefix, arguments)
                replies = await self._send([call, *wait], self._timeout_s, script.name)
            if replicas and replies[-1] < replicas:
                raise Unconfirmed(replicas, replies[-1])
            return replies

        return (await self._patiently(once, repeatable=repeatable))[0]

    async def run_after(self, wait: Command, for_s: float, script: Script, prefix: str, arguments: bytes) -> Any:
        """A repeatable script right behind a read that blocks for `for_s` at most, and whose reply nobody needs.

        The server runs it in the moment in which the read ends: nobody pays for a round trip in between.
        """
        try:
            commands = [wait, ("EVALSHA", script.sha, 1, prefix, arguments)]
            return (await self._send(commands, for_s + BLOCK_MARGIN_S, WAITS))[1]
        except (NoScriptError, Unreachable):
            return await self.run(script, prefix, arguments, repeatable=True)

    async def block(
        self, *command: str | bytes | int | float, for_s: float = MAX_BLOCK_S, repeatable: bool = False
    ) -> Any:
        """A read that blocks for `for_s` at most; a `repeatable` one survives a restart of the server."""
        wait_s = for_s + BLOCK_MARGIN_S
        return (await self._patiently(lambda: self._send([command], wait_s, WAITS), repeatable=repeatable))[0]

    async def _patiently(self, once: Callable[[], Awaitable[list[Any]]], *, repeatable: bool) -> list[Any]:
        """The tries take time, too: one to a host that swallows packets lasts seconds, and is not made ten times."""
        loop = asyncio.get_running_loop()
        until_s = loop.time() + self._patience_s
        for pause_s in self._pauses_s:
            try:
                return await once()
            except Unreachable as error:
                if not (repeatable or isinstance(error, NotTaken)) or loop.time() > until_s:
                    raise
            await asyncio.sleep(pause_s)
        return await once()

    async def _send(self, commands: Sequence[Command], timeout_s: float, what: str = "plain") -> list[Any]:
        """One try, at the server that has the place; when it is no longer the one, the next try looks again.

        `what` it is counted as.
        """
        began_s = time.perf_counter()
        try:
            replies = await self._try(commands, timeout_s)
        except TransportError as error:
            self._watch.failed(error)
            if isinstance(error, Unreachable):
                self._missed_at_s = time.monotonic()
            raise
        if what is WAITS:
            self._watch.reached()
        else:
            self._watch.answered(what, time.perf_counter() - began_s)
        return replies

    async def _try(self, commands: Sequence[Command], timeout_s: float) -> list[Any]:
        self._last_address = address = self._place.known or await self._place.find()
        try:
            return await self._connections.execute(address, commands, timeout_s)
        except NoScriptError:
            raise
        except (RedisError, OSError, TransportError) as error:
            failure = translated(error)
            if isinstance(failure, Unreachable):
                await self._leave(address, error)
            raise failure from error

    async def _leave(self, address: Address, error: BaseException) -> None:
        if target := moved_to(error):
            host, port = target
            self._place.moved(Address(host or address.host, port))
        else:
            self._place.forget()
            await self._connections.drop(address)
