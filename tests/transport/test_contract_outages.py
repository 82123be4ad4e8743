"""Promises of every transport when nobody could look at leases for a while. The test moves the clock."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from itertools import count

import pytest
import pytest_asyncio

from envelope.errors import ErrorCode
from envelope.lifecycle import State
from transport import approvals
from transport.base import Claim, Lease, LeaseKeeper, TaskRecord, Transport
from transport.blobs import MemoryBlobs
from transport.embedded import Server
from transport.keyring import fresh
from transport.limits import Limits
from transport.memory import MemoryTransport
from transport.redis import RedisTransport
from transport.redis.cells import Cells
from transport.redis.leases import RedisKeeper
from transport.redis.servers import Servers

from .conftest import KEYRING, Fleet

LEASE_MS = 12_000
LIMITS = Limits(lease_ms=LEASE_MS)
LOOK_MS = LIMITS.look_ms
GAP_MS = LEASE_MS // 3
_names = count()


class Clock:
    def __init__(self) -> None:
        self.now_ms = 1_700_000_000_000

    def __call__(self) -> int:
        return self.now_ms


class ClockedCells(Cells):
    """One cell whose scripts go by the test's clock."""

    def __init__(self, url: str, fleet: str, clock: Clock) -> None:
        super().__init__(Servers(url), fleet, LIMITS)
        self.all = tuple(replace(cell, clock=clock) for cell in self.all)
        self.first = self.all[0]


class TimedFleet(Fleet):
    """A fleet of three tasks, and the clock that rules it. Nothing waits."""

    def __init__(self, transport: Transport, clock: Clock, open_keeper: Callable[[], LeaseKeeper]) -> None:
        super().__init__(transport)
        self.clock = clock
        self._open_keeper = open_keeper

    async def begun(self, *, worker: str = "w1", **fields: object) -> Lease:  # type: ignore[override]
        await self.submit(created_at_ms=self.clock.now_ms, **{"deadline_ms": 20_000_000, **fields})
        return (await self.look(worker))[0].lease

    async def look(self, worker: str = "w2") -> list[Claim]:
        return await self.transport.claim("explore", worker, slots=9, wait_s=0)

    async def renew(self, *leases: Lease) -> frozenset[str]:
        """The leases that are lost."""
        keeper = self._open_keeper()
        lost = (await asyncio.to_thread(keeper.renew, leases)).lost
        await asyncio.to_thread(keeper.close)
        return lost

    async def lives_on(self, for_ms: int, *kept: Lease, every_ms: int = LOOK_MS) -> list[Claim]:
        """Somebody looks regularly, and these leases are renewed; what was started meanwhile."""
        claims: list[Claim] = []
        until_ms = self.clock.now_ms + for_ms
        while self.clock.now_ms < until_ms and not claims:
            self.clock.now_ms += min(every_ms, until_ms - self.clock.now_ms)
            claims += await self.look()
            if kept:
                assert not await self.renew(*kept)
        return claims

    async def of(self, lease: Lease) -> TaskRecord:
        return await self.transport.record(lease.task_id)


@pytest_asyncio.fixture(params=["memory", pytest.param("redis", marks=pytest.mark.redis)])
async def fleet(request: pytest.FixtureRequest, redis_server: Server) -> AsyncIterator[TimedFleet]:
    clock, name = Clock(), f"outages{next(_names)}"
    if request.param == "memory":
        memory = MemoryTransport(clock=clock, limits=LIMITS, keyring=KEYRING)
        yield TimedFleet(memory, clock, memory.keeper)
        return
    url = redis_server.url
    transport = RedisTransport(ClockedCells(url, name, clock), fresh(), approvals.none(), MemoryBlobs(), ("explore",))
    yield TimedFleet(transport, clock, lambda: RedisKeeper(ClockedCells(url, name, clock)))
    await transport.close()


@pytest.mark.parametrize("away_ms", [GAP_MS + 1, LEASE_MS, 17_000, 3_600_000])
async def test_an_outage_costs_no_lease_though_others_look_before_its_worker_renews(fleet, away_ms):
    lease = await fleet.begun()
    for _ in range(3):
        await fleet.lives_on(LEASE_MS, lease)
        fleet.clock.now_ms += away_ms
        assert await fleet.lives_on(LEASE_MS - LOOK_MS) == []
        assert await fleet.renew(lease) == frozenset()

    assert (await fleet.of(lease)).lost_leases == 0


async def test_outages_that_follow_each_other_closely_cost_no_lease_either(fleet):
    lease = await fleet.begun()
    for _ in range(20):
        fleet.clock.now_ms += 17_000
        assert await fleet.look() == []
        fleet.clock.now_ms += 1_000
        assert await fleet.renew(lease) == frozenset()


async def test_a_worker_that_an_outage_killed_is_noticed_within_two_leases(fleet):
    lease = await fleet.begun()
    fleet.clock.now_ms += 17_000

    assert await fleet.lives_on(LEASE_MS - LOOK_MS) == []
    (again,) = await fleet.lives_on(LEASE_MS)

    assert (again.lease.task_id, again.lease.attempt, again.lost_leases) == (lease.task_id, 2, 1)


async def test_a_dead_worker_is_noticed_by_one_who_is_always_late(fleet):
    """Every look of the only worker left comes so late that it looks like an outage."""
    await fleet.begun()

    assert len(await fleet.lives_on(8 * 2 * GAP_MS, every_ms=2 * GAP_MS)) == 1


async def test_a_dead_worker_is_noticed_on_time_by_an_idle_one(fleet):
    lease = await fleet.begun()
    died_ms = fleet.clock.now_ms

    (again,) = await fleet.lives_on(2 * LEASE_MS)

    assert again.lease.task_id == lease.task_id
    assert fleet.clock.now_ms == died_ms + LEASE_MS


async def test_a_lease_whose_worker_died_long_before_anybody_came_ends_within_a_lease_and_a_quarter(fleet):
    await fleet.begun()
    fleet.clock.now_ms += 3_600_000
    assert await fleet.look() == []

    assert len(await fleet.lives_on(LEASE_MS + LEASE_MS // 4)) == 1


async def test_deadlines_and_cancellations_end_on_time_after_an_outage(fleet):
    late, stopped = await fleet.begun(deadline_ms=10_000), await fleet.begun()
    await fleet.transport.cancel(stopped.task_id, by="me", reason="enough")
    fleet.clock.now_ms += 17_000

    await fleet.look()

    assert [(await fleet.of(lease)).state for lease in (late, stopped)] == [State.EXPIRED, State.CANCELLED]


@pytest.mark.parametrize("back_ms", [1_000, 3_600_000])
async def test_a_clock_that_is_set_back_neither_costs_a_lease_nor_keeps_one_alive(fleet, back_ms):
    kept, left = await fleet.begun(), await fleet.begun(worker="dead")
    await fleet.lives_on(LOOK_MS, kept)

    fleet.clock.now_ms -= back_ms
    (again,) = await fleet.lives_on(LEASE_MS, kept)

    assert again.lease.task_id == left.task_id
    assert (await fleet.of(kept)).lost_leases == 0


async def test_a_task_that_takes_its_worker_down_is_poison_at_the_third_although_nobody_looks_meanwhile(fleet):
    """The only worker is started again after a while, each time; its server was there."""
    lease = await fleet.begun()
    for _ in range(2):
        fleet.clock.now_ms += 60_000
        assert await fleet.lives_on(2 * LEASE_MS)
    fleet.clock.now_ms += 60_000
    await fleet.lives_on(2 * LEASE_MS)

    result = await fleet.transport.result(lease.task_id)
    assert result.errors[0].code is ErrorCode.POISON


async def test_a_result_of_the_queue_can_be_read_after_the_clock_was_set_back(fleet):
    lease = await fleet.begun()
    fleet.clock.now_ms -= 3_600_000
    await fleet.transport.cancel(lease.task_id, by="me", reason="enough")
    fleet.clock.now_ms += LIMITS.expiry_grace_ms
    await fleet.look()

    assert (await fleet.transport.result(lease.task_id)).metrics.latency_ms == 0
