"""Waiting for work: the doorbells of a pool, and the moments at which there is something to do without a ring."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace

from envelope.logs import get_logger

from ..base import Claim, Lease
from ..errors import TransportError, Unreachable
from .cell import Cell
from .cells import Cells
from .client import MAX_BLOCK_S
from .listening import Listener, by_client
from .queue import take

# A lease that ends in the very next moment must not become a busy loop (and 0 would block for ever).
MIN_BLOCK_S = 0.002
# However short leases are: an idle worker must not keep its server busy.
SHORTEST_LOOK_S = 0.05

_log = get_logger("redis")


class Claiming:
    """Tasks of all cells, beginning each time with another one. `give_back` returns a task that was started."""

    def __init__(self, cells: Cells, give_back: Callable[[Lease], Awaitable[None]]) -> None:
        self._cells = cells
        self._give_back = give_back
        # a cell whose server is away must not hold up the others for as long as a submitter would wait
        self._hasty = [replace(cell, client=cell.client.hasty()) for cell in cells.all]
        self._away: dict[Cell, asyncio.Task[None]] = {}
        self._turn = 0
        # when somebody who found all there was should look again, unless the bell rings before
        self._look_at: dict[tuple[str, str], float] = {}
        self._listeners: dict[str, Listener] = {}

    async def claim(self, pool: str, worker: str, *, slots: int, wait_s: float) -> list[Claim]:
        """Waits for the doorbell, and wakes when a lease, a deadline or a timer ends: there is work in that, too.

        Who took less than it could has left nothing behind: the next claim waits before it looks.
        """
        loop = asyncio.get_running_loop()
        until = loop.time() + wait_s
        look_at = self._look_at.pop((pool, worker), 0.0)
        while True:
            pause_s = min(look_at, until) - loop.time()
            wake_ms, claims = await self._take(pool, worker, slots, max(MIN_BLOCK_S, pause_s) if pause_s > 0 else 0)
            # a millisecond on top: the moment itself must have passed
            due_s = (wake_ms + 1) / 1000 if wake_ms >= 0 else MAX_BLOCK_S
            # who takes the doorbell's token and dies takes the ring with it: others look by themselves
            look_at = loop.time() + min(due_s, max(self._cells.limits.look_ms / 1000, SHORTEST_LOOK_S))
            if claims or loop.time() >= until:
                if len(claims) < slots:
                    self._look_at[pool, worker] = look_at
                return claims

    def close(self) -> None:
        for listener in self._listeners.values():
            listener.close()
        for waiting in self._away.values():
            waiting.cancel()

    async def _take(self, pool: str, worker: str, slots: int, pause_s: float) -> tuple[int, list[Claim]]:
        if len(self._cells.all) == 1:
            return await take(self._cells.first, pool, worker, slots, bell_s=pause_s)
        if pause_s:
            await self._listen(pool, pause_s)
        claims: list[Claim] = []
        try:
            return await self._take_in_turn(pool, worker, slots, claims), claims
        except BaseException:  # whatever stopped it: what one cell has started must not wait for its lease to end
            with suppress(TransportError):
                for claim in claims:
                    await self._give_back(claim.lease)
            raise

    async def _listen(self, pool: str, pause_s: float) -> None:
        bells = by_client(self._cells.all, "bell", pool)
        if len(bells) == 1:
            ((client, names),) = bells.items()
            await client.block("BLPOP", *names, pause_s, for_s=pause_s)
            return
        if pool not in self._listeners:
            self._listeners[pool] = Listener(bells, shared=True)
        await self._listeners[pool].wait(pause_s)

    async def _take_in_turn(self, pool: str, worker: str, slots: int, claims: list[Claim]) -> int:
        """Adds to `claims`; milliseconds until one of the cells has something to do without a ring (-1: none)."""
        self._turn += 1
        wakes: list[int] = []
        failure: Unreachable | None = None
        for number in range(len(self._hasty)):
            cell = self._hasty[(self._turn + number) % len(self._hasty)]
            if len(claims) == slots or cell in self._away:
                continue
            try:
                wake_ms, found = await take(cell, pool, worker, slots - len(claims))
            except Unreachable as error:
                failure = error
                self._pass_over(cell)
                continue
            claims += found
            wakes += [wake_ms] if wake_ms >= 0 else []
        if len(self._away) == len(self._hasty):
            raise failure or Unreachable("none of the fleet's Redis servers answers", hint="check that they run")
        return min(wakes, default=-1)

    def _pass_over(self, cell: Cell) -> None:
        _log.warning("cell_away", cell=cell.keys.cell)
        waiting = self._away[cell] = asyncio.create_task(_until_back(cell))
        waiting.add_done_callback(lambda _: self._away.pop(cell, None))


async def _until_back(cell: Cell) -> None:
    """Each try waits for some seconds; what is wrong apart from that is for the next claim to say."""
    while True:
        try:
            await cell.client.call("PING")
        except Unreachable:
            continue
        except TransportError:
            return
        return
