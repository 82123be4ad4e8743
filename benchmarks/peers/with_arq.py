"""arq: 200 jobs at once, polling every 10 ms (its default of 500 ms would measure the pause)."""

from __future__ import annotations

import asyncio
from typing import Any

from arq import Worker, create_pool
from arq.connections import RedisSettings
from arq.worker import func

from . import PROMPT


def _settings(url: str) -> RedisSettings:
    return RedisSettings(unix_socket_path=url.removeprefix("unix://"))


async def noop(ctx: dict[Any, Any], prompt: str) -> str:
    return "done"


async def fill(url: str, count: int) -> None:
    pool = await create_pool(_settings(url))
    await asyncio.gather(*(pool.enqueue_job("noop", PROMPT) for _ in range(count)))
    await pool.aclose()


async def drain(url: str, count: int) -> None:
    worker = Worker(
        [func(noop, name="noop")], redis_settings=_settings(url), max_jobs=200, poll_delay=0.01, burst=True,
        max_burst_jobs=count, handle_signals=False,
    )  # fmt: skip
    await worker.main()
    await worker.close()
