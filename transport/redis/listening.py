"""Waiting for the first element of any of several lists, on servers that one command cannot ask together."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

from envelope.logs import get_logger

from ..errors import Unreachable
from .cell import Cell
from .client import MAX_BLOCK_S, Client

# Whoever waits here has other things to do when its time is over; this only bounds how often a lost server is tried.
RETRY_S = 2.0

_log = get_logger("redis")


def by_client(cells: Iterable[Cell], *name: str) -> dict[Client, list[str]]:
    """The key of this name in each cell, together where one server has them."""
    names: dict[Client, list[str]] = {}
    for cell in cells:
        names.setdefault(cell.client, []).append(cell.keys.name(*name))
    return names


class Listener:
    """Reads go on between two waits: to end one under way would lose the element that it was about to bring.

    What comes while nobody waits is put back, where it may be meant for others as well (`shared`); else the next wait
    ends at once. A server that cannot be reached is passed over, and tried again.
    """

    def __init__(self, names: dict[Client, list[str]], *, shared: bool) -> None:
        self._names = names
        self._shared = shared
        self._waiting = 0
        self._reads: dict[Client, asyncio.Task[None]] = {}

    async def wait(self, timeout_s: float, *, until: asyncio.Future[Any] | None = None) -> None:
        """Until an element came, until the future is done, or for the time given."""
        for client in self._names:
            if client not in self._reads:
                self._reads[client] = asyncio.create_task(self._read(client))
        self._waiting += 1
        try:
            waited = {*self._reads.values(), *([until] if until else ())}
            await asyncio.wait(waited, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._waiting -= 1
        for client, read in list(self._reads.items()):
            if read.done():
                del self._reads[client]
                read.result()

    def close(self) -> None:
        for read in self._reads.values():
            read.cancel()

    async def _read(self, client: Client) -> None:
        while True:
            try:
                found = await client.block("BLPOP", *self._names[client], MAX_BLOCK_S, repeatable=True)
                if found and self._shared and not self._waiting:
                    await client.call("LPUSH", found[0], found[1])
                if found:
                    return
            except Unreachable as error:
                _log.warning("server_not_reached", error=error.message, again_in_s=RETRY_S)
                await asyncio.sleep(RETRY_S)
