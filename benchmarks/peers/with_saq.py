"""saq: 200 jobs at once, each dequeued by a blocking move of its own connection."""

from __future__ import annotations

import asyncio
from typing import Any

import redis.asyncio
from saq import Worker
from saq.queue.redis import RedisQueue

from . import PROMPT


async def fill(url: str, count: int) -> None:
    queue = RedisQueue(redis.asyncio.from_url(url))
    await queue.connect()
    await asyncio.gather(*(queue.enqueue("noop", prompt=PROMPT, timeout=300, ttl=3600) for _ in range(count)))
    await queue.disconnect()


async def drain(url: str, count: int) -> None:
    done, left = asyncio.Event(), count

    async def noop(ctx: dict[str, Any], *, prompt: str) -> str:
        return "done"

    async def after(ctx: dict[str, Any]) -> None:
        nonlocal left
        left -= 1
        if not left:
            done.set()

    queue = RedisQueue(redis.asyncio.from_url(url))
    worker = Worker(queue, functions=[("noop", noop)], concurrency=200, after_process=after, shutdown_grace_period_s=0)
    worker.SIGNALS = []
    running = asyncio.create_task(worker.start())
    await done.wait()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
