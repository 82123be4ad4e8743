"""What an attempt waits for with its slot and its sandbox: told to the queue, and by it to everybody."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import asynccontextmanager

from envelope.lifecycle import State
from transport.base import Lease, Transport

from .reporter import Reporter

# As long as a person takes who was told at once: nobody else has the slot and the sandbox meanwhile.
LONGEST_MS = 15 * 60_000
LOOK_S = 0.5  # an answer is a call of the queue, and this is nothing to a person


class Holding:
    """For what cannot be parked. Several may wait at once."""

    def __init__(self, transport: Transport, lease: Lease, reporter: Reporter) -> None:
        self._transport, self._lease, self._reporter = transport, lease, reporter
        self._asks: Counter[str] = Counter()

    @property
    def waits(self) -> bool:
        return bool(self._asks)

    @asynccontextmanager
    async def waiting_for(self, asks: Iterable[str]) -> AsyncGenerator[None]:
        """What was reported until now, the asks above all, is in the stream before anybody hears of the wait."""
        names = list(asks)
        self._asks.update(names)
        try:
            await self._reporter.flush()
            await self._tell()
            yield
        finally:
            self._asks.subtract(names)
            self._asks = +self._asks
            await self._tell()

    async def again(self) -> None:
        """What it waits for seemed to be there, and is not."""
        await self._tell()

    async def is_raised(self, ask: str, is_wanted: Callable[[], bool]) -> bool:
        """Wait for a cap of money by the name of its ask; False when nobody raises it in time, or wants it any more."""
        ends_at_ms = await self._transport.now_ms() + LONGEST_MS
        async with self.waiting_for([ask]):
            while ask in (await self._transport.record(self._lease.task_id)).waits_for:
                if not is_wanted() or await self._transport.now_ms() >= ends_at_ms:
                    return False
                await asyncio.sleep(LOOK_S)
        await self._reporter.ask_ledger()  # with the new cap
        return is_wanted()

    async def _tell(self) -> None:
        asks = frozenset(self._asks)
        self._reporter.status = State.WAITING if asks else State.RUNNING
        await self._transport.hold(self._lease, asks)
