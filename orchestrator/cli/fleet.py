"""How a command reaches the fleet: the one at `MUSTER_REDIS_URL`, else this machine's own, started when needed."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager

from envelope.logs import configure
from envelope.tracing.context import context_in
from envelope.tracing.spans import continued
from envelope.tracing.starting import traced
from transport.embedded import embedded_redis
from transport.watching import UNWATCHED, StoreWatch

from ..client import Muster
from ..settings import Settings
from ..submit import DRIVERS
from ..supervisor.attach import Attached, attached, is_running
from ..supervisor.control import state_lock
from ..supervisor.errors import AlreadyRuns, FleetError
from .console import note

# A worker that is just starting announces itself within this time; whoever has none at all must not wait for long.
WORKERS_WAIT_S = 5.0
LOOK_S = 0.25


@asynccontextmanager
async def open_fleet(settings: Settings, *, watch: StoreWatch = UNWATCHED) -> AsyncGenerator[Muster]:
    """A fleet that does what it is given; kept alive meanwhile, if it is this machine's own. What it is given goes on
    with the trace of whoever started this process, if that tells of one.

    `FleetError` when it cannot start, or when nobody serves the given Redis.
    """
    quiet_logs()
    with traced("muster"), continued(context_in(os.environ)):
        async with _connected(settings, watch) as muster:
            yield muster


@asynccontextmanager
async def _connected(settings: Settings, watch: StoreWatch) -> AsyncGenerator[Muster]:
    if settings.redis_url:
        async with Muster.connect(settings, watch=watch) as muster:
            await _require_workers(muster, {DRIVERS, *settings.pools})
            yield muster
        return
    if not await is_running(settings):
        note("starting the fleet of this machine …")
    async with attached(settings, tell=note) as here:
        tell_different(here)
        async with Muster.connect(settings, watch=watch) as muster:
            yield muster


@asynccontextmanager
async def open_records(settings: Settings, *, watch: StoreWatch = UNWATCHED) -> AsyncGenerator[Muster]:
    """A fleet's records, to read only: for a fleet of this machine that is not running, its Redis alone is started."""
    quiet_logs()
    if settings.redis_url:
        async with Muster.connect(settings, watch=watch) as muster:
            yield muster
        return
    try:
        with state_lock(settings.state_dir):
            async with embedded_redis(settings.state_dir), Muster.connect(settings, watch=watch) as muster:
                yield muster
    except AlreadyRuns:
        async with attached(settings, works=False), Muster.connect(settings, watch=watch) as muster:
            yield muster


def tell_different(here: Attached) -> None:
    """Others need it as it is: what is asked of it now is done by those settings."""
    if here.different:
        names = ", ".join(here.different)
        note(f"the fleet that runs has other settings ({names}), and goes on with them; `muster down` ends it")


def quiet_logs() -> None:
    """Log lines are the processes' that do the work; a command says itself what a person must know."""
    configure(level="error")


async def _require_workers(muster: Muster, pools: Iterable[str]) -> None:
    """Wait for the last pool to be served; Redis has no event for an announcement."""
    missing = set(pools)
    try:
        async with asyncio.timeout(WORKERS_WAIT_S):
            while missing := set(pools) - {card.pool for card in await muster.workers()}:  # noqa: ASYNC110
                await asyncio.sleep(LOOK_S)
    except TimeoutError as e:
        starts = ("python -m orchestrator.service" if pool == DRIVERS else f"muster-worker {pool}" for pool in missing)
        message = f"no live worker serves {' or '.join(sorted(missing))} on this Redis"
        raise FleetError(message, hint=f"start: {', '.join(sorted(starts))}") from e
