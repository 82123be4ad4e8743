"""Is a loop alive? Not whether its port answers: whether it has come round."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable

TICK_S = 1.0


class Pulse:
    """Of one event loop, and of one loop on it that takes turns of different lengths.

    Read in any thread; written on the event loop alone.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._ticked_s = clock()
        self._due_s = math.inf  # when the loop should have come round

    def expect(self, within_s: float) -> None:
        """The loop has come round, and will do so again within this time; for ever (`inf`) where it may wait."""
        self._ticked_s = self._clock()
        self._due_s = self._ticked_s + within_s

    @property
    def age_s(self) -> float:
        """For how long there has been no sign of life. Who waits for work, or for a free slot, shows one a second."""
        now_s = self._clock()
        return max(0.0, now_s - self._ticked_s, now_s - self._due_s)

    async def beat(self) -> None:
        """Until cancelled."""
        while True:
            self._ticked_s = self._clock()
            await asyncio.sleep(TICK_S)
