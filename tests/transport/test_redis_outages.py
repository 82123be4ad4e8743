"""Outages longer than a lease: a server that is killed, frozen or busy, under workers that go on."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from envelope.messages import TaskResult
from transport.consumer import Consumer, Delivery
from transport.embedded import find_server
from transport.errors import Unreachable
from transport.keyring import fresh
from transport.limits import Limits
from transport.redis import connect_redis

from .conftest import Fleet

pytestmark = pytest.mark.redis

LEASE_S = 0.6
AWAY_S = 1.5 * LEASE_S
TASKS = 20
MANY = 10_000_000


async def killed(server) -> None:
    server.kill()
    await asyncio.sleep(AWAY_S)
    await asyncio.to_thread(server.start)


async def frozen(server) -> None:
    server.process.send_signal(signal.SIGSTOP)
    await asyncio.sleep(AWAY_S)
    server.process.send_signal(signal.SIGCONT)


async def busy(server) -> None:
    """With one script; it cannot read a clock, so that a short one says how far it must count."""
    script = "for number = 1, tonumber(ARGV[1]) do end"
    began_s = time.monotonic()
    await asyncio.to_thread(server.command, "EVAL", script, 0, MANY)
    took_s = time.monotonic() - began_s
    await asyncio.to_thread(server.command, "EVAL", script, 0, int(MANY * AWAY_S / took_s))


@pytest.fixture
async def make_timed_fleet(start_redis) -> AsyncIterator[Callable[..., Awaitable[tuple[Fleet, Any]]]]:
    transports = []

    async def make(*, poison_after: int = 1) -> tuple[Fleet, Any]:
        server = start_redis("--appendonly", "yes", program=find_server())
        limits = Limits(lease_ms=int(LEASE_S * 1000), poison_after=poison_after)
        transport = await connect_redis(f"redis://127.0.0.1:{server.port}", keyring=fresh(), limits=limits)
        transports.append(transport)
        return Fleet(transport), server

    yield make
    for transport in transports:
        await transport.close()


@asynccontextmanager
async def serving(fleet: Fleet, go_on: asyncio.Event, *, workers: int, slots: int) -> AsyncIterator[list[str]]:
    """Workers whose tasks run until all may go on; what was started, each time."""
    started: list[str] = []
    stop = asyncio.Event()

    async def handle(delivery: Delivery) -> TaskResult:
        started.append(delivery.request.task_id)
        await go_on.wait()
        return fleet.result(delivery.claim)

    consumers = [
        Consumer(fleet.transport, pool="explore", worker=f"w{number}", slots=slots, handle=handle)
        for number in range(workers)
    ]
    running = [asyncio.create_task(consumer.run(stop)) for consumer in consumers]
    try:
        yield started
    finally:
        stop.set()
        await asyncio.gather(*running)


async def test_no_healthy_task_is_lost_by_outages_longer_than_a_lease(make_timed_fleet):
    """Each worker has free slots, so that its claims look for what is over as soon as they can."""
    fleet, server = await make_timed_fleet(poison_after=3)
    go_on = asyncio.Event()
    requests = [fleet.request() for _ in range(TASKS)]
    async with serving(fleet, go_on, workers=2, slots=TASKS) as started:
        await fleet.transport.submit(requests)
        for away in (killed, frozen, busy):
            await away(server)
            await asyncio.sleep(LEASE_S)
        later = await fleet.submit()
        go_on.set()
        results = [result async for result in fleet.transport.results([*(r.task_id for r in requests), later.task_id])]

    assert len(started) == len(results) == TASKS + 1
    assert {result.attempt for result in results} == {1}
    assert "lost_leases" not in await fleet.transport.counters()


async def test_a_worker_that_died_with_its_server_is_no_proof_of_poison(make_timed_fleet):
    """And who waits for its lease does not keep the server busy."""
    fleet, server = await make_timed_fleet()
    request = await fleet.submit()
    await fleet.claim_one("dead")

    await killed(server)
    again = await fleet.claim_one("heir")

    assert (again.lease.task_id, again.lost_leases) == (request.task_id, 1)
    calls = server.command("INFO", "commandstats").partition("cmdstat_evalsha:calls=")[2].partition(",")[0]
    assert int(calls) <= 20
    await asyncio.sleep(LEASE_S)  # killed once more, while its server is there
    assert await fleet.transport.claim("explore", "heir", slots=1, wait_s=2 * LEASE_S) == []
    assert (await fleet.ended(request.task_id)).errors[0].code == "poison"


async def test_a_worker_that_died_while_nobody_reached_its_server_is_no_proof_of_poison(make_timed_fleet):
    """The server's process is the same: that it was away is known from a worker that got no answer."""
    fleet, server = await make_timed_fleet()
    await fleet.transport.submit([fleet.request(), fleet.request()])
    kept, left = await fleet.claim_one("lives"), await fleet.claim_one("dies")
    keeper = fleet.transport.keeper()
    await asyncio.to_thread(keeper.renew, [kept.lease])

    freezing = asyncio.create_task(frozen(server))
    await asyncio.sleep(0)
    with pytest.raises(Unreachable):
        await asyncio.to_thread(keeper.renew, [kept.lease])
    await freezing
    waiting = asyncio.create_task(fleet.claim_one("heir"))
    while not waiting.done():
        assert not (await asyncio.to_thread(keeper.renew, [kept.lease])).lost
        await asyncio.wait({waiting}, timeout=LEASE_S / 4)

    assert (await waiting).lease.task_id == left.lease.task_id
    keeper.close()
