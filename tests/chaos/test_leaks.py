"""R24: when all is over, and its retention too, a fleet has the keys that an idle fleet has, and no others."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import replace

import pytest
from lab.crew import Crew, strike
from lab.figures import report
from lab.fleet import LIMITS, Fleet, MakeFleet
from lab.job import Job, request
from lab.processes import Nursery
from lab.schedule import faults, seeds
from lab.server import Server

from transport.base import Transport
from transport.keys import CellKeys

pytestmark = [pytest.mark.chaos, pytest.mark.redis]

RETENTION_MS = 3_000
# An emptied flow leaves when its turn comes: with the next claim of an idle worker, every 10 s.
GONE_WITHIN_S = RETENTION_MS / 1000 + 40
STRUCK_FOR_S = 3.0
WORKERS = 3
UNSERVED = "explore"


@pytest.mark.parametrize("seed", seeds(1))
async def test_no_key_outlives_its_task(seed: int, make_fleet: MakeFleet, nursery: Nursery, server: Server) -> None:
    fleet = make_fleet(replace(LIMITS, retention_ms=RETENTION_MS, idempotency_ms=RETENTION_MS))
    transport = await fleet.connect()
    async with Crew(nursery, fleet, WORKERS) as crew:
        await submit_all_sorts(transport)
        await strike(crew, faults(seed, WORKERS), STRUCK_FOR_S)
        most = len(keys(server))
        try:
            async with asyncio.timeout(GONE_WITHIN_S):
                while leaked(server, fleet):
                    await asyncio.sleep(0.2)
        except TimeoutError:
            pytest.fail(f"not gone after {GONE_WITHIN_S} s: {leaked(server, fleet)}")

    left = Counter(lifetime(key, fleet) for key in keys(server))
    # a key may go between the two looks: PTTL says -2 of one that is gone, and -1 of one that stays for ever
    stay = [key for key in keys(server) if lifetime(key, fleet) != "always" and server.call("PTTL", key) == -1]
    report("R24", seed=seed, keys_at_work=most, keys_left=left)
    await transport.close()
    assert stay == []


async def submit_all_sorts(transport: Transport) -> None:
    """Trees that wait, tasks that are cancelled in each state, that expire, and whose pool nobody serves."""
    child = Job(turns_ms=(100,)).plain()
    tasks = [request(Job(turns_ms=(100, 100), children=(child,) * 3, parks=True), key=f"{n}") for n in range(20)]
    tasks += [request(Job(turns_ms=(30_000,)), deadline_ms=2_000) for _ in range(5)]
    tasks += [request(Job(), recipient=UNSERVED, deadline_ms=1_000) for _ in range(5)]
    tasks += [request(Job(turns_ms=(100,) * 5, cost_microusd=1)) for _ in range(5)]
    cancelled = [request(Job(turns_ms=(30_000,), children=(child,) * 2)) for _ in range(5)]
    await transport.submit([*tasks, *cancelled])
    for task in cancelled:
        await transport.cancel(task.task_id, by="test", reason="not needed")


def keys(server: Server) -> list[bytes]:
    return server.call("KEYS", "*")


def lifetime(key: bytes, fleet: Fleet) -> str:
    if key.startswith(f"muster:{fleet.name}:blob:".encode()):
        return "blob"
    row = CellKeys(fleet.name).key_of(key.decode())
    return row.lifetime if row else "unknown"


def leaked(server: Server, fleet: Fleet) -> Counter[str]:
    """Keys by their row in the table that should be gone by now. What lives for minutes or days, for as long as a task
    may run, and blobs, have their time."""
    timed = ("always", "minutes", "days", "window", "blob")
    return Counter(key.decode() for key in keys(server) if lifetime(key, fleet) not in timed)
