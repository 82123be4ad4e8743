"""dramatiq: eight threads, results in Redis; its prefetch is twice its threads."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

import dramatiq
import redis
from dramatiq.brokers.redis import RedisBroker
from dramatiq.results import Results
from dramatiq.results.backends.redis import RedisBackend

from . import PROMPT

THREADS = 8


def _actor(url: str, on_done: Callable[[], None]) -> tuple[RedisBroker, dramatiq.Actor]:
    client = redis.Redis.from_url(url, max_connections=THREADS * 4)
    broker = RedisBroker(client=client)
    broker.add_middleware(Results(backend=RedisBackend(client=client)))

    def noop(prompt: str) -> str:
        on_done()
        return "done"

    return broker, dramatiq.actor(noop, actor_name="noop", broker=broker, store_results=True)


async def fill(url: str, count: int) -> None:
    def put() -> None:
        broker, actor = _actor(url, lambda: None)
        for _ in range(count):
            actor.send(PROMPT)
        broker.close()

    await asyncio.to_thread(put)


async def drain(url: str, count: int) -> None:
    left, done, lock = count, threading.Event(), threading.Lock()

    def one_less() -> None:
        nonlocal left
        with lock:
            left -= 1
            if not left:
                done.set()

    broker, _ = _actor(url, one_less)
    worker = dramatiq.Worker(broker, worker_threads=THREADS, worker_timeout=100)
    worker.start()
    await asyncio.to_thread(done.wait)
    worker.stop()
    broker.close()
