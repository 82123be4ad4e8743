"""The supervisor: starts Redis, the orchestrator and the pools, keeps them running, stops them when unwanted."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from functools import partial
from typing import Any

from envelope.errors import ExitCode, MusterError
from envelope.logs import get_logger
from transport.base import Transport
from transport.embedded import Server
from transport.errors import Unreachable
from transport.settings import connect

from ..settings import Settings
from ..submit import DRIVERS
from .errors import StartFailed
from .keep import Keepers, keep_path
from .lock import state_lock
from .programs import Programs
from .redis import keep_redis
from .surroundings import fingerprint

IDLE_S = 60.0
START_TIMEOUT_S = 60.0

log = get_logger("supervisor")


async def supervise(
    settings: Settings, *, idle_s: float = IDLE_S, stay: bool = False, guest: socket.socket | None = None
) -> None:
    """Run the fleet until it is stopped, or nobody has been connected and no task alive for `idle_s`.

    `stay`: run without guests, too. `guest` is the connection of whoever started this process. `AlreadyRuns` when
    the state folder has a supervisor; a part that refuses to start is told to the guests, then raised as
    `StartFailed`. When this returns, no process of the fleet is left.
    """
    async with AsyncExitStack() as stack:
        stack.enter_context(state_lock(settings.state_dir))
        keepers = Keepers(stay=stay)
        stack.push_async_callback(keepers.close)
        await keepers.listen(keep_path(settings.state_dir))
        if guest is not None:
            await keepers.adopt(guest)
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, keepers.stop)
        try:
            await _run(settings, keepers, idle_s)
        except MusterError as error:
            exit_code = getattr(error, "exit_code", ExitCode.INFRASTRUCTURE)
            keepers.greet({"error": error.message, "hint": error.hint, "exit": int(exit_code)})
            raise


async def _run(settings: Settings, keepers: Keepers, idle_s: float) -> None:
    """Ended in the reverse order of the start: programs drain while Redis still takes what they give back."""
    up: asyncio.Future[Server] = asyncio.get_running_loop().create_future()
    redis = asyncio.create_task(keep_redis(settings.state_dir, up))
    redis.add_done_callback(lambda _: keepers.stop())  # a fleet without Redis is none
    try:
        await asyncio.wait((redis, up), return_when=asyncio.FIRST_COMPLETED)
        if not redis.done():
            await _run_programs(settings, keepers, idle_s, up.result())
    finally:
        redis.cancel()
        await asyncio.wait((redis,))
    if not redis.cancelled():
        redis.result()


async def _run_programs(settings: Settings, keepers: Keepers, idle_s: float, redis: Server) -> None:
    transport = await connect(settings)
    try:
        async with Programs(settings) as programs:
            await _first_of(_in_time(programs.announced(transport), settings), keepers.until_stopped())
            if keepers.stopping:
                return
            log.info("fleet_started", pools=settings.pools)
            keepers.busy = partial(_busy, transport, settings)
            keepers.greet(
                {
                    "redis": f"{redis.program.name} {redis.version}",
                    "pools": settings.pools,
                    "fingerprint": fingerprint(settings, os.environ),
                    "pid": os.getpid(),
                }
            )
            await _until_unwanted(keepers, idle_s)
    finally:
        await transport.close()


async def _in_time(announced: Coroutine[Any, Any, None], settings: Settings) -> None:
    try:
        await asyncio.wait_for(announced, START_TIMEOUT_S)
    except TimeoutError as e:
        hint = f"look into {settings.state_dir / 'logs'}"
        raise StartFailed(f"the fleet was not ready within {START_TIMEOUT_S:.0f} s", hint=hint) from e


async def _first_of(*ways: Coroutine[Any, Any, None]) -> None:
    """Wait for one of several; the others are given up."""
    tasks = [asyncio.create_task(way) for way in ways]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    for task in done:
        task.result()


async def _until_unwanted(keepers: Keepers, idle_s: float) -> None:
    while not keepers.stopping:
        keepers.changed.clear()
        try:
            await asyncio.wait_for(keepers.changed.wait(), None if keepers.wanted else idle_s)
        except TimeoutError:
            if not keepers.wanted and not await keepers.busy():
                log.info("fleet_unwanted", idle_s=idle_s)
                return


async def _busy(transport: Transport, settings: Settings) -> bool:
    try:
        pools = await transport.stats([DRIVERS, *settings.pools])
    except Unreachable:
        return True  # Redis is just starting again; ask later
    return any(pool.ready or pool.running for pool in pools)
