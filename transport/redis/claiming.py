"""Waiting for work: the doorbells of a pool, and the moments at which there is something to do without a ring.

In several cells a claim asks one after the other, so that one free slot starts one task. A cell that does not answer
soon is left out, with all that its server has, until it answers: the others are asked meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

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

# A cell is late when it takes LATE_TIMES as long as cells took lately: a moving average, in which the newest answer
# has this share. An answer after an outage counts as LONGEST_S, so that it does not spoil the average.
LATE_TIMES, NEWEST_SHARE, LONGEST_S = 4, 0.2, 0.25
# Tasks that a late answer has started wait this long for the worker's next claim. A worker that makes none has no
# free slot, so they are given back.
KEPT_S = 1.0
# A server that is away is tried again after this pause; a try that gets no answer ends after the time-out.
TRY_EVERY_S, TRY_TIMEOUT_S = 0.25, 1.0

Worker = tuple[str, str]  # its pool and its name

_log = get_logger("redis")


class Claiming:
    """Tasks of all cells, beginning each time with another one. `give_back` returns a task that was started."""

    def __init__(self, cells: Cells, give_back: Callable[[Lease], Awaitable[None]]) -> None:
        self._cells = cells
        self._give_back = give_back
        # a cell whose server is away must not hold up the others for as long as a submitter would wait
        self._hasty = [replace(cell, client=cell.client.hasty()) for cell in cells.all]
        # cells that are left out: None while an answer is awaited, else why there is none
        self._away: dict[Cell, Unreachable | None] = {}
        self._late: dict[Worker, list[Claim]] = {}
        self._changed = asyncio.Event()  # another one each time that a cell came back, or was given up
        self._background: set[asyncio.Task[None]] = set()
        self._turn = 0
        self._usual_s = 0.0  # how long cells take to answer
        # when somebody who found all there was should look again, unless the bell rings before
        self._look_at: dict[Worker, float] = {}
        self._listeners: dict[str, Listener] = {}

    async def claim(
        self, pool: str, worker: str, *, slots: int, wait_s: float, but_of: Sequence[str] = ()
    ) -> list[Claim]:
        """Waits for the doorbell, and wakes when a lease, a deadline or a timer ends: there is work in that, too.

        Who took less than it could has left nothing behind: the next claim waits before it looks.
        """
        loop = asyncio.get_running_loop()
        until = loop.time() + wait_s
        look_at = self._look_at.pop((pool, worker), 0.0)
        changed = self._changed
        while True:
            before, changed = changed, self._changed
            pause_s = min(look_at, until) - loop.time()
            pause_s = max(MIN_BLOCK_S, pause_s) if pause_s > 0 else 0
            wake_ms, claims = await self._take(pool, worker, slots, pause_s, before, but_of)
            # a millisecond on top: the moment itself must have passed
            due_s = (wake_ms + 1) / 1000 if wake_ms >= 0 else MAX_BLOCK_S
            # who takes the doorbell's token and dies takes the ring with it: others look by themselves
            look_at = loop.time() + min(due_s, max(self._cells.limits.look_ms / 1000, SHORTEST_LOOK_S))
            if claims or loop.time() >= until:
                if len(claims) < slots and not changed.is_set() and not but_of:
                    self._look_at[pool, worker] = look_at
                return claims

    async def close(self) -> None:
        for listener in self._listeners.values():
            listener.close()
        for task in self._background:
            task.cancel()
        if self._background:  # a call to a silent server ends when its connection is closed
            await asyncio.wait(self._background, timeout=self._cells.patience_s)
        await self._return(claim for claims in self._late.values() for claim in claims)

    async def _take(
        self, pool: str, worker: str, slots: int, pause_s: float, changed: asyncio.Event, but_of: Sequence[str]
    ) -> tuple[int, list[Claim]]:
        """`changed` since the last look is a reason to look again without a pause."""
        if len(self._cells.all) == 1:
            return await take(self._cells.first, pool, worker, slots, bell_s=pause_s, but_of=but_of)
        if pause_s:
            await self._listen(pool, pause_s, changed)
        claims = self._take_late((pool, worker), slots)
        try:
            wake_ms = await self._take_in_turn(pool, worker, slots, claims, but_of)
            while not claims and self._nobody_answers():
                await self._changed.wait()
                claims += self._take_late((pool, worker), slots)
        except BaseException:  # whatever stopped it: what one cell has started must not wait for its lease to end
            await self._return(claims)
            raise
        return wake_ms, claims

    async def _listen(self, pool: str, pause_s: float, changed: asyncio.Event) -> None:
        bells = by_client(self._cells.all, "bell", pool)
        if len(bells) == 1:
            ((client, names),) = bells.items()
            await client.block("BLPOP", *names, pause_s, for_s=pause_s)
            return
        if pool not in self._listeners:
            self._listeners[pool] = Listener(bells, shared=True)
        change = asyncio.ensure_future(changed.wait())
        try:
            await self._listeners[pool].wait(pause_s, until=change)
        finally:
            change.cancel()

    async def _take_in_turn(
        self, pool: str, worker: str, slots: int, claims: list[Claim], but_of: Sequence[str]
    ) -> int:
        """Adds to `claims`; milliseconds until one of the cells has something to do without a ring (-1: none)."""
        self._turn += 1
        wakes: list[int] = []
        for number in range(len(self._hasty)):
            cell = self._hasty[(self._turn + number) % len(self._hasty)]
            if len(claims) >= slots or cell in self._away:
                continue
            if answer := await self._ask(cell, pool, worker, slots - len(claims), but_of):
                wake_ms, found = answer
                claims += found
                wakes += [wake_ms] if wake_ms >= 0 else []
        return min(wakes, default=-1)

    async def _ask(
        self, cell: Cell, pool: str, worker: str, slots: int, but_of: Sequence[str]
    ) -> tuple[int, list[Claim]] | None:
        """None: it has not answered. An answer that comes late is for the worker's next claim."""
        asked = asyncio.ensure_future(self._timed(take(cell, pool, worker, slots, but_of=but_of)))
        try:
            await asyncio.wait({asked}, timeout=max(self._cells.patience_s, LATE_TIMES * self._usual_s))
        except asyncio.CancelledError:
            asked.cancel()  # it gives back what it has started, unless it is at its end
            await asyncio.wait({asked})
            if not asked.cancelled() and not asked.exception():
                await asyncio.shield(asyncio.ensure_future(self._return(asked.result()[1])))
            raise
        if asked.done() and not isinstance(asked.exception(), Unreachable):
            return asked.result()
        server = cell.client.address
        together = [other for other in self._hasty if other is cell or (server and other.client.address == server)]
        self._away.update(dict.fromkeys(together))
        self._do(self._until_back(together, cell, asked, (pool, worker)))
        return None

    async def _timed(self, taking: Awaitable[tuple[int, list[Claim]]]) -> tuple[int, list[Claim]]:
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        answer = await taking
        took_s = min(loop.time() - began_s, LONGEST_S)
        self._usual_s += NEWEST_SHARE * (took_s - self._usual_s)
        return answer

    # -- cells that do not answer

    def _nobody_answers(self) -> bool:
        """All cells are away, and one of them may still answer; raises when none will."""
        if len(self._away) < len(self._hasty):
            return False
        failures = [failure for failure in self._away.values() if failure]
        if len(failures) == len(self._hasty):
            raise failures[0]
        return True

    async def _until_back(
        self, cells: Sequence[Cell], cell: Cell, asked: asyncio.Future[tuple[int, list[Claim]]], worker: Worker
    ) -> None:
        """`asked` is the call to `cell` that was not answered in time."""
        try:
            _, claims = await asked
            self._keep(worker, claims)
        except Unreachable as error:
            _log.warning("cells_away", cells=[one.keys.cell for one in cells], error=error.message)
            self._away.update(dict.fromkeys(cells, error))
            self._tell()
            await _reached(cell)
        except TransportError:
            pass  # for the next claim to say
        finally:
            for one in cells:
                self._away.pop(one, None)
            self._tell()

    def _tell(self) -> None:
        """Those who wait look again, and so do those who come next."""
        self._look_at.clear()
        self._changed.set()
        self._changed = asyncio.Event()

    def _keep(self, worker: Worker, claims: Sequence[Claim]) -> None:
        if claims:
            self._late.setdefault(worker, []).extend(claims)
            self._do(self._give_back_unwanted(worker, claims))

    def _take_late(self, worker: Worker, slots: int) -> list[Claim]:
        late = self._late.pop(worker, [])
        if len(late) > slots:
            self._late[worker] = late[slots:]
        return late[:slots]

    async def _give_back_unwanted(self, worker: Worker, claims: Sequence[Claim]) -> None:
        await asyncio.sleep(KEPT_S)
        unwanted = [claim for claim in self._late.get(worker, ()) if claim in claims]
        self._late[worker] = [claim for claim in self._late.get(worker, ()) if claim not in unwanted]
        await self._return(unwanted)

    async def _return(self, claims: Iterable[Claim]) -> None:
        with suppress(TransportError):
            for claim in claims:
                await self._give_back(claim.lease)

    def _do(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)


async def _reached(cell: Cell) -> None:
    """Until the cell's server says anything of its keys, if only that it refuses: that is for the next claim to say."""
    client = cell.client.hasty(())
    while True:
        try:
            await client.call("EXISTS", cell.keys.name("meta"), timeout_s=TRY_TIMEOUT_S)
        except Unreachable:
            await asyncio.sleep(TRY_EVERY_S)
        except TransportError:
            return
        else:
            return
