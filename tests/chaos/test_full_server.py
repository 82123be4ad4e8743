"""R22: a small server, filled again and again by those who submit, ends all that it accepted; nobody helps it."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from dataclasses import replace

import pytest
from lab.figures import report
from lab.fleet import LIMITS, POOL, MakeFleet
from lab.job import Job, request
from lab.schedule import SOAK, seeds
from lab.server import Server

from envelope.events import TextDelta
from envelope.lifecycle import State
from envelope.messages import TaskProgress, TaskResult
from transport.base import Transport
from transport.consumer import Consumer, Delivery
from transport.errors import QueueFull

pytestmark = [
    pytest.mark.chaos,
    pytest.mark.redis,
    pytest.mark.skipif(not SOAK, reason="make soak runs it"),
]

FOR_S, DRAINED_WITHIN_S = 120.0, 240.0
MAXMEMORY_BYTES = 32 * 1024 * 1024
# Short, so that records go, too, while the test runs.
RETENTION_MS = 20_000
# What the ends of accepted tasks may take beyond it.
RESERVE_SHARE = 0.1
SUBMITTERS, SLOTS, BATCH = 4, 25, 50
# How many things tasks tell; in the second half they talk more than any before them.
FIRST_TOLD, THEN_TOLD = (0, 10, 60), (60, 250)
UNSERVED = "explore"


@pytest.mark.timeout(FOR_S + DRAINED_WITHIN_S + 60)
@pytest.mark.parametrize("seed", seeds(1))
async def test_a_small_server_that_is_filled_for_long_ends_all_that_it_accepted(
    seed: int, make_fleet: MakeFleet, server: Server
) -> None:
    server.call("CONFIG", "SET", "maxmemory", MAXMEMORY_BYTES)
    fleet = make_fleet(replace(LIMITS, retention_ms=RETENTION_MS))
    transports = [await fleet.connect() for _ in range(SUBMITTERS + 2)]
    stop, used_bytes = asyncio.Event(), list[int]()
    looking = asyncio.create_task(look_at(server, used_bytes))
    workers = [serve(transport, f"w{n}", stop) for n, transport in enumerate(transports[SUBMITTERS:])]
    serving = [asyncio.create_task(worker) for worker in workers]

    submitters = [fill(transport, seed + n) for n, transport in enumerate(transports[:SUBMITTERS])]
    async with asyncio.timeout(FOR_S + DRAINED_WITHIN_S):
        counts = sum(await asyncio.gather(*submitters), Counter[str]())
    stop.set()
    await asyncio.gather(*serving)
    looking.cancel()

    live = server.call("ZCARD", f"{{muster:{fleet.name}:0}}:deadlines")
    peak_share = max(used_bytes) / MAXMEMORY_BYTES
    report("R22", seed=seed, for_s=FOR_S, peak_share=round(peak_share, 2), **counts)
    for transport in transports:
        await transport.close()
    assert live == 0
    assert counts["refused"] > 0
    assert counts["accepted"] == sum(counts[state] for state in (State.COMPLETED, State.CANCELLED, State.EXPIRED))
    assert counts[State.COMPLETED] > counts["accepted"] / 2
    assert peak_share < 1 + RESERVE_SHARE


async def look_at(server: Server, used_bytes: list[int]) -> None:
    while True:
        used_bytes.append(int(server.call("INFO", "memory")["used_memory"]))
        await asyncio.sleep(0.2)


async def fill(transport: Transport, seed: int) -> Counter[str]:
    """Submit as much as is taken; what became of it. Most is served, some is cancelled, some waits for its deadline."""
    chance, counts, until_s = random.Random(seed), Counter[str](), time.monotonic() + FOR_S
    ending: list[asyncio.Task[Counter[str]]] = []
    while time.monotonic() < until_s:
        told = FIRST_TOLD if time.monotonic() < until_s - FOR_S / 2 else THEN_TOLD
        served = [request(Job(turns_ms=(chance.choice(told),))) for _ in range(BATCH)]
        unserved = [request(Job(), recipient=UNSERVED, deadline_ms=3_000) for _ in range(BATCH // 25)]
        try:
            await transport.submit([*served, *unserved])
        except QueueFull:
            counts["refused"] += 1
            await asyncio.sleep(0.5)
            continue
        counts["accepted"] += len(served) + len(unserved)
        ending.append(asyncio.create_task(ends(transport, [task.task_id for task in (*served, *unserved)])))
        await transport.cancel(chance.choice(served).task_id, by="test", reason="not needed")
    return sum(await asyncio.gather(*ending), counts)


async def ends(transport: Transport, task_ids: list[str]) -> Counter[str]:
    return Counter([result.status async for result in transport.results(task_ids)])


async def serve(transport: Transport, name: str, stop: asyncio.Event) -> None:
    """Each task tells so many things of 1,000 bytes as its first turn has milliseconds."""

    async def talk(delivery: Delivery) -> TaskResult:
        lease = delivery.claim.lease
        ids = {"trace_id": lease.trace_id, "task_id": lease.task_id, "attempt": lease.attempt}
        (count,) = delivery.request.input.params["turns_ms"]
        for seq in range(count):
            told = (TextDelta(text="y" * 1000),)
            await transport.emit(lease, TaskProgress(**ids, seq=seq, at_ms=0, status=State.RUNNING, events=told))
        return TaskResult(**ids, status=State.COMPLETED)

    await Consumer(transport, pool=POOL, worker=name, slots=SLOTS, handle=talk).run(stop)
