"""The fleet, opened by the first who needs it: an editor must get its first answer at once, and errors as errors."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from ..client import Muster

Opening = Callable[[], AbstractAsyncContextManager[Muster]]


class LazyFleet:
    """One connection for all sessions. One that could not be opened is tried again by whoever comes next."""

    def __init__(self, opening: Opening) -> None:
        self._opening = opening
        self._closing = asyncio.Event()
        self._opened: asyncio.Future[Muster] | None = None
        self._holder: asyncio.Task[None] | None = None

    async def muster(self) -> Muster:
        if self._opened is None or (self._opened.done() and self._opened.exception() is not None):
            self._opened = asyncio.get_running_loop().create_future()
            self._holder = asyncio.create_task(self._hold(self._opened))
        return await asyncio.shield(self._opened)

    async def _hold(self, opened: asyncio.Future[Muster]) -> None:
        """In one task from its opening to its end, whoever asks for it meanwhile."""
        try:
            async with self._opening() as muster:
                opened.set_result(muster)
                await self._closing.wait()
        except Exception as e:
            if opened.done():
                raise
            opened.set_exception(e)
            opened.exception()  # seen: whoever waited may have gone

    async def close(self) -> None:
        self._closing.set()
        if self._holder is not None:
            if self._opened is not None and not self._opened.done():
                self._holder.cancel()
            await asyncio.gather(self._holder, return_exceptions=True)


@asynccontextmanager
async def lazy_fleet(opening: Opening) -> AsyncGenerator[LazyFleet]:
    fleet = LazyFleet(opening)
    try:
        yield fleet
    finally:
        await fleet.close()
