"""A cap that somebody raises while its driver is at work.

The driver alone shares it out: it knows what it keeps for tasks that it has not submitted yet. Whoever raises a cap
raises the driver's own.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

from envelope.logs import get_logger
from transport.errors import TransportError

from .driver import Driver

LOOK_EVERY_S = 2.0

log = get_logger("raises")


@asynccontextmanager
async def sharing_raises(driver: Driver, share: Callable[[int], Awaitable[bool]]) -> AsyncGenerator[None]:
    """Beside the work: `share` gets each cap, in micro-dollars, that is higher than the one that the driver began with
    or shared last. It is asked again with the same one until it says that somebody has got something."""
    watching = asyncio.create_task(_watch(driver, share))
    try:
        yield
    finally:
        watching.cancel()
        with suppress(asyncio.CancelledError):
            await watching


async def _watch(driver: Driver, share: Callable[[int], Awaitable[bool]]) -> None:
    shared = driver.request.budget.max_cost_microusd
    while shared is not None:
        await asyncio.sleep(LOOK_EVERY_S)
        try:
            cap = (await driver.transport.ledger(driver.request.trace_id)).cap_microusd
            if cap is not None and cap > shared and await share(cap):
                shared = cap
        except TransportError as e:  # another time
            log.warning("raise_not_shared", task=driver.request.task_id, error=str(e))
