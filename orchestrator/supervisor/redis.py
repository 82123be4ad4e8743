"""The embedded Redis, started again should it die: its append-only file holds every task, and everyone reconnects."""

from __future__ import annotations

import asyncio
from pathlib import Path

from envelope.logs import get_logger
from transport.embedded import Server, embedded_redis

from .ending import end_of

log = get_logger("supervisor")


async def keep_redis(state_dir: Path, up: asyncio.Future[Server]) -> None:
    """Run until cancelled; `up` gets the first server. What keeps one from starting is raised."""
    while True:
        async with embedded_redis(state_dir) as server:
            log.info("redis_started", pid=server.pid, version=server.version)
            if not up.done():
                up.set_result(server)
            await end_of(server.pid)
            log.error("redis_ended", pid=server.pid)
