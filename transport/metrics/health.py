"""What probes ask: is the process alive (else it is killed), is it ready (else it gets nothing to do)?"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from .pulse import Pulse

# A store and an engine that are well answer within milliseconds.
CHECK_TIMEOUT_S = 2.0
# So long an answer stands: whoever asks a thousand times a second must not keep the engine busy.
ANSWER_STANDS_S = 1.0

Check = Callable[[], Awaitable[object]]  # raises when what it is about is not there


@dataclass(frozen=True, slots=True)
class Alive:
    """Without a sign of life for `limit_s`, somebody should start the process again."""

    pulse: Pulse
    limit_s: float

    def fault(self) -> str:
        """One fixed sentence, empty when all is well: probes are answered to anybody."""
        return "" if self.pulse.age_s <= self.limit_s else "the loop has not come round"


@dataclass(slots=True)
class Ready:
    """`draining`: is it to end? `checks`: by what is said when one fails; they run on `loop`.

    `failures`: how a check fails, beside that it takes too long.
    """

    loop: asyncio.AbstractEventLoop
    draining: Callable[[], bool]
    checks: Mapping[str, Check]
    failures: tuple[type[Exception], ...]
    _one_at_a_time: threading.Lock = field(default_factory=threading.Lock)
    _answer: str = ""
    _stands_until_s: float = 0.0

    def fault(self) -> str:
        """As `Alive.fault`. That the process drains is told at once."""
        if self.draining():
            return "draining"
        with self._one_at_a_time:
            if time.monotonic() >= self._stands_until_s:
                self._answer = self._asked()
                self._stands_until_s = time.monotonic() + ANSWER_STANDS_S
            return self._answer

    def _asked(self) -> str:
        asking = asyncio.run_coroutine_threadsafe(self._first_fault(), self.loop)
        try:
            return asking.result(2 * CHECK_TIMEOUT_S)
        except TimeoutError:
            asking.cancel()
            return "busy"

    async def _first_fault(self) -> str:
        faults = await asyncio.gather(*(self._fault(word, check) for word, check in self.checks.items()))
        return next(filter(None, faults), "")

    async def _fault(self, word: str, check: Check) -> str:
        try:
            async with asyncio.timeout(CHECK_TIMEOUT_S):
                await check()
        except (TimeoutError, *self.failures):
            return word
        return ""
