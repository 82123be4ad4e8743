"""Work on what strangers wrote that takes a processor seconds: beside the loop, where all other drivers go on."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable
from typing import TypeVar

from repo.fairness import FairSemaphore

MAX_AT_ONCE = 2  # they share one interpreter: more would be no sooner done

T = TypeVar("T")


class Threads:
    """A process's. Who asks for many waits for himself: turns are fair between tenants."""

    def __init__(self) -> None:
        self._turns = FairSemaphore(MAX_AT_ONCE)

    async def run(self, tenant: str, work: Callable[[], T]) -> T:
        """A thread cannot be stopped: whoever is cancelled here leaves it its turn until it has ended by itself."""
        await self._turns.acquire(tenant)
        context = contextvars.copy_context()
        thread = asyncio.get_running_loop().run_in_executor(None, lambda: context.run(work))
        thread.add_done_callback(lambda _: self._turns.release(tenant))
        return await asyncio.shield(thread)
