"""The supervisor: starts Redis, the orchestrator and the pools, keeps them running, stops them when unwanted."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any

from envelope.errors import ExitCode, MusterError
from envelope.logs import get_logger
from transport.base import Transport
from transport.embedded import Server, embedded_redis
from transport.errors import Unreachable
from transport.settings import connect
from transport.state_folder import keep_files_private

from ..errors import exit_code_of
from ..settings import Settings
from ..submit import DRIVERS
from .control import ControlSocket, control_path, state_lock
from .environment import fingerprints
from .errors import StartFailed
from .process import end_of
from .programs import Programs

IDLE_S = 60.0
START_TIMEOUT_S = 60.0

log = get_logger("supervisor")


async def supervise(
    settings: Settings, *, idle_s: float = IDLE_S, stay: bool = False, client: socket.socket | None = None
) -> None:
    """Run the fleet until it is stopped, or nobody has been connected and no task alive for `idle_s`.

    `stay`: run without clients, too. `client` is the connection of whoever started this process. `AlreadyRuns` when
    the state folder has a supervisor; a part that refuses to start is told to the clients, then raised as
    `StartFailed`. When this returns, no process of the fleet is left.
    """
    keep_files_private()
    async with AsyncExitStack() as stack:
        stack.enter_context(state_lock(settings.state_dir))
        control = ControlSocket(stay=stay)
        stack.push_async_callback(control.close)
        await control.listen(control_path(settings.state_dir))
        if client is not None:
            await control.adopt(client)
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, control.stop)
        try:
            await _run(settings, control, idle_s)
        except MusterError as error:
            exit_code = exit_code_of(error) or ExitCode.INFRASTRUCTURE
            control.publish({"error": error.message, "hint": error.hint, "exit": int(exit_code)})
            raise


async def _run(settings: Settings, control: ControlSocket, idle_s: float) -> None:
    """Ended in the reverse order of the start: programs drain while Redis still takes what they give back."""
    up: asyncio.Future[Server] = asyncio.get_running_loop().create_future()
    redis = asyncio.create_task(_restart_redis(settings.state_dir, up))
    redis.add_done_callback(lambda _: control.stop())  # a fleet without Redis is none
    try:
        await asyncio.wait((redis, up), return_when=asyncio.FIRST_COMPLETED)
        if not redis.done():
            await _run_programs(settings, control, idle_s, up.result())
    finally:
        redis.cancel()
        await asyncio.wait((redis,))
    if not redis.cancelled():
        redis.result()


async def _restart_redis(state_dir: Path, up: asyncio.Future[Server]) -> None:
    """Run the embedded Redis until cancelled, again should it die: its append-only file holds every task.

    `up` gets the first server. What keeps one from starting is raised.
    """
    while True:
        async with embedded_redis(state_dir) as server:
            log.info("redis_started", pid=server.pid, version=server.version)
            if not up.done():
                up.set_result(server)
            await end_of(server.pid)
            log.error("redis_ended", pid=server.pid)


async def _run_programs(settings: Settings, control: ControlSocket, idle_s: float, redis: Server) -> None:
    transport = await connect(settings)
    try:
        async with Programs(settings) as programs:
            await _first_of(_in_time(programs.announced(transport), settings), control.until_stopped())
            if control.stopping:
                return
            log.info("fleet_started", pools=settings.pools)
            control.busy = partial(_busy, transport, settings)
            control.publish(
                {
                    "redis": f"{redis.program.name} {redis.version}",
                    "pools": settings.pools,
                    "settings": fingerprints(settings, os.environ),
                    "pid": os.getpid(),
                }
            )
            await _until_unwanted(control, idle_s)
    finally:
        await transport.close()


async def _in_time(announced: Coroutine[Any, Any, None], settings: Settings) -> None:
    try:
        async with asyncio.timeout(START_TIMEOUT_S):
            await announced
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


async def _until_unwanted(control: ControlSocket, idle_s: float) -> None:
    while not control.stopping:
        control.changed.clear()
        try:
            async with asyncio.timeout(None if control.wanted else idle_s):
                await control.changed.wait()
        except TimeoutError:
            if not control.wanted and not await control.busy():
                log.info("fleet_unwanted", idle_s=idle_s)
                return


async def _busy(transport: Transport, settings: Settings) -> bool:
    try:
        pools = await transport.stats([DRIVERS, *settings.pools])
    except Unreachable:
        return True  # Redis is just starting again; ask later
    return any(pool.ready or pool.running for pool in pools)
