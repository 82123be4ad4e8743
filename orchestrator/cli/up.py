"""`muster up` and `muster down`: the fleet of this machine."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from envelope.logs import configure_service

from ..errors import BadInput
from ..settings import Settings, load_settings
from ..supervisor.attach import attached, stop_fleet
from ..supervisor.fleet import supervise
from .console import note
from .fleet import tell_different


def up(
    detach: Annotated[bool, typer.Option("--detach", help="Start it in the background, and leave it running.")] = False,
) -> None:
    """Start the fleet of this machine: Redis, the orchestrator and the worker pools.

    `muster run` and `muster batch` start it as well, until nobody needs it for a minute; this one stays.
    """
    settings = _own(load_settings())
    if detach:
        asyncio.run(_up_detached(settings))
        return
    configure_service(level=settings.log_level, style=settings.log_format)
    note(f"starting the fleet on {settings.state_dir}; Ctrl-C stops it")
    asyncio.run(supervise(settings, stay=True))


def down() -> None:
    """Stop the fleet of this machine. What is not done yet goes on when it is started again."""
    if asyncio.run(stop_fleet(_own(load_settings()))):
        note("the fleet is stopped")
    else:
        note("no fleet runs here")


async def _up_detached(settings: Settings) -> None:
    async with attached(settings, tell=note) as fleet:
        await fleet.request("stay")
        tell_different(fleet)
        pools = ", ".join(f"{pool} ({slots})" for pool, slots in sorted(settings.pools.items()))
        note(f"the fleet runs: {pools}; stop it with: muster down")


def _own(settings: Settings) -> Settings:
    if settings.redis_url:
        raise BadInput(
            "MUSTER_REDIS_URL names a Redis that others look after",
            hint="start `python -m orchestrator.service` and `muster-worker POOL` there, or unset it",
        )
    return settings
