"""What callers from outside may store, in memory and on Redis, under one clock that the test moves."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace

import pytest
import pytest_asyncio

from transport.embedded import Server
from transport.errors import AllowanceSpent, Refused
from transport.limits import DAY_MS, Limits
from transport.memory.uploads import MemoryUploads
from transport.redis.cells import Cells
from transport.redis.servers import Servers
from transport.redis.uploads import RedisUploads
from transport.uploads import HOUR_MS, MIB, Uploads

LIMITS = Limits(upload_hour_bytes=100 * MIB, upload_bytes=250 * MIB)
_fleets = itertools.count()


@dataclass
class Clock:
    now_ms: int = 1_700_000_000_000 // HOUR_MS * HOUR_MS

    def __call__(self) -> int:
        return self.now_ms


@dataclass
class Door:
    """`replica`: a second server's, on the same fleet."""

    uploads: Uploads
    replica: Uploads
    clock: Clock

    async def refused(self, size_bytes: int, *, tenant: str = "a", looks: bool = False) -> AllowanceSpent:
        with pytest.raises(AllowanceSpent) as refusal:
            await self.uploads.take(tenant, size_bytes, looks=looks)
        assert refusal.value.hint
        return refusal.value


@pytest_asyncio.fixture
async def redis_door(redis_server: Server) -> AsyncIterator[Door]:
    clock, fleet, servers = Clock(), f"uploads{next(_fleets)}", (Servers(redis_server.url), Servers(redis_server.url))
    here, replica = (RedisUploads(clocked(each, fleet, clock)) for each in servers)
    yield Door(here, replica, clock)
    for each in servers:
        await each.close()


def clocked(servers: Servers, fleet: str, clock: Clock) -> Cells:
    cells = Cells(servers, fleet, LIMITS, 2)
    cells.all = tuple(replace(cell, clock=clock) for cell in cells.all)
    return cells


@pytest.fixture(params=["memory", pytest.param("redis", marks=pytest.mark.redis)])
def door(request: pytest.FixtureRequest) -> Door:
    if request.param == "redis":
        return request.getfixturevalue("redis_door")
    clock = Clock()
    uploads = MemoryUploads(clock, LIMITS)
    return Door(uploads, uploads, clock)


async def test_an_hour_takes_so_many_bytes_at_whichever_server_they_come(door: Door):
    await door.uploads.take("a", 60 * MIB)
    await door.replica.take("a", 30 * MIB)
    door.clock.now_ms += 15 * 60_000

    refusal = await door.refused(11 * MIB)

    assert str(refusal) == "of the 100 MiB that a may store within an hour 10 MiB are left, and this has 11 MiB"
    assert "come again in 45 min" in refusal.hint
    assert refusal.retry_after_s == 45 * 60
    await door.uploads.take("a", 10 * MIB)  # what was refused was not counted
    door.clock.now_ms += 45 * 60_000
    await door.uploads.take("a", 100 * MIB)


async def test_tenants_have_limits_of_their_own(door: Door):
    await door.uploads.take("a", 100 * MIB)
    await door.uploads.take("b", 100 * MIB)
    await door.refused(1)


async def test_all_that_may_be_kept_is_limited_until_it_is_kept_no_longer(door: Door):
    kept_hours = 7 * 24 + 2 * 7 * 24 + 1
    for _ in range(2):
        await door.uploads.take("a", 100 * MIB)
        door.clock.now_ms += HOUR_MS

    refusal = await door.refused(51 * MIB)

    assert str(refusal) == "of the 250 MiB that a may store within 21 days 50 MiB are left, and this has 51 MiB"
    assert refusal.retry_after_s == (kept_hours - 2) * HOUR_MS / 1000
    door.clock.now_ms += (kept_hours - 2) * HOUR_MS - 1
    await door.refused(51 * MIB)
    door.clock.now_ms += 1
    await door.uploads.take("a", 51 * MIB)
    door.clock.now_ms += 30 * DAY_MS
    await door.uploads.take("a", 100 * MIB)


async def test_who_only_looks_has_a_small_part_and_uses_up_nothing_of_others(door: Door):
    await door.uploads.take("a", 12 * MIB, looks=True)
    await door.refused(1 * MIB, looks=True)
    await door.uploads.take("a", 100 * MIB)


async def test_what_never_fits_is_refused_without_a_time_to_come_again(door: Door):
    with pytest.raises(Refused, match=r"more than the 100 MiB"):
        await door.uploads.take("a", 101 * MIB)


@pytest.mark.redis
async def test_no_limit_is_none(redis_server: Server):
    unlimited = Limits(upload_hour_bytes=0, upload_bytes=0)
    servers = Servers(redis_server.url)
    on_redis = RedisUploads(Cells(servers, f"uploads{next(_fleets)}", unlimited))
    for uploads in (on_redis, MemoryUploads(Clock(), unlimited)):
        for _ in range(3):
            await uploads.take("a", 10**12)
    await servers.close()
