"""celery: one process that works its own loop (`solo`, without the hand-over to a child), late acknowledgements."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from celery import Celery
from celery.exceptions import WorkerShutdown
from celery.worker import state

from . import PROMPT


def _app(url: str) -> Celery:
    # kombu spells a unix socket `redis+socket`, and so does its result backend
    place = url.replace("unix://", "redis+socket://")
    app = Celery("bench", broker=place, backend=place)
    app.conf.update(task_acks_late=True, worker_prefetch_multiplier=100, worker_hijack_root_logger=False)
    return app


async def fill(url: str, count: int) -> None:
    def put() -> None:
        app = _app(url)
        with app.producer_or_acquire() as producer:
            for _ in range(count):
                app.send_task("noop", (PROMPT,), producer=producer)

    await asyncio.to_thread(put)


async def drain(url: str, count: int) -> None:
    app, left = _app(url), count

    def noop(prompt: str) -> str:
        nonlocal left
        left -= 1
        if not left:
            state.should_stop = 0  # the exit code with which its loop ends
        return "done"

    app.task(name="noop")(noop)
    worker = app.WorkController(
        app=app, pool="solo", concurrency=1, loglevel="ERROR", without_gossip=True, without_mingle=True,
        without_heartbeat=True,
    )  # fmt: skip
    with suppress(WorkerShutdown):
        worker.start()
