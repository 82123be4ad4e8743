"""A submitter process: sends its share of a run's tasks and stays until all have ended.

Killed and started again it sends them all again: by their keys they are the same tasks.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from functools import partial
from typing import cast

from envelope.budget import Budget
from envelope.ids import content_key
from envelope.messages import TaskRequest
from transport.base import Transport
from transport.errors import QueueFull, Unreachable
from transport.outbox import Outbox

from .fleet import Fleet
from .job import request
from .recorded import Recorded
from .schedule import jobs

RETRY_S = 0.1
CAPS_MICROUSD = (None, 100_000, 400_000)


async def submit(
    fleet: Fleet,
    name: str,
    *,
    ready: Callable[[], None],
    share: str,
    seed: int,
    count: int,
    began_ns: int,
    over_s: float,
    backwards: bool = False,
) -> None:
    """`count` tasks, evenly from the moment `began_ns` (CLOCK_MONOTONIC) on, over `over_s`."""
    requests = shares(share, seed, count)[:: -1 if backwards else 1]
    async with fleet.recorded(name) as transport:
        outbox = Outbox(cast(Transport, transport))
        ready()
        task_ids: set[str] = set()
        for number, make in enumerate(requests):
            due_s = began_ns / 1e9 + number / count * over_s
            await asyncio.sleep(max(0.0, due_s - time.monotonic()))
            task_ids.add(await _accepted(outbox, make))
        await _ended(outbox, transport, task_ids)


def shares(share: str, seed: int, count: int) -> list[Callable[[], TaskRequest]]:
    """Makers of the requests: each time with a new task id, always with the same key."""
    caps = random.Random(f"caps {seed}")
    return [
        partial(
            request,
            job,
            key=content_key(share, str(number)),
            budget=Budget(max_cost_microusd=caps.choice(CAPS_MICROUSD)),
        )
        for number, job in enumerate(jobs(seed, count))
    ]


async def _accepted(outbox: Outbox, make: Callable[[], TaskRequest]) -> str:
    while True:
        try:
            (handle,) = await outbox.submit([make()])
        except (Unreachable, QueueFull):
            await asyncio.sleep(RETRY_S)
        else:
            return handle.task_id


async def _ended(outbox: Outbox, transport: Recorded, task_ids: set[str]) -> None:
    """Whatever the server forgets meanwhile is submitted again, by the outbox."""
    while task_ids:
        try:
            async for result in outbox.results(task_ids):
                transport.note("result", task_id=result.task_id, status=result.status)
                task_ids.discard(result.task_id)
        except (Unreachable, QueueFull):
            await asyncio.sleep(RETRY_S)
