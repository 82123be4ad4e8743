"""Who has the floor in a session: its prompts are worked on one after the other, in the order in which they came."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from acp.schema import PromptResponse

Work = Callable[[], Awaitable[PromptResponse]]

CANCELLED = PromptResponse(stop_reason="cancelled")


class Floor:
    """A cancel is for the work that has the floor, and for all that waits for it."""

    def __init__(self) -> None:
        self._turns = asyncio.Lock()  # hands over in the order of asking, also to who comes at the very moment
        self.work: asyncio.Future[PromptResponse] | None = None  # that has it
        self.cancels = 0  # so far
        self._cancels_before = 0  # the work that has the floor began

    @property
    def is_cancelled(self) -> bool:
        """Was the work that has the floor cancelled since it began? It may take a while to end."""
        return self.cancels != self._cancels_before

    async def take(self, work: Work, cancels: int) -> PromptResponse | None:
        """What the work comes to, once all before it has ended; None when it was cancelled before it began.

        `cancels`: as many as there were when it was asked for. Who stops waiting for this stops the work.
        """
        async with self._turns:
            if self.cancels != cancels:
                return None
            self._cancels_before = cancels
            self.work = asyncio.ensure_future(work())
            try:
                return await self.work
            finally:
                self.work = None

    def cancel(self) -> None:
        self.cancels += 1
