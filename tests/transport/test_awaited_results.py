"""The cost of waiting for results, and what it leaves on the server: each process has one reader and one stream."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest
import redis.asyncio

from envelope.ids import new_task_id
from transport.errors import NotFound
from transport.keys import CellKeys
from transport.redis import results

pytestmark = pytest.mark.redis


@pytest.fixture
async def raw(redis_server):
    """The server itself, past the transport."""
    client = redis.asyncio.Redis.from_url(redis_server.url, decode_responses=True)
    yield client
    await client.aclose()


class Waiting:
    """Tasks that wait for results, each in its own task of the event loop."""

    def __init__(self, raw) -> None:
        self._raw = raw
        self._tasks: list[asyncio.Task] = []

    async def wait_for(self, fleet, task_ids, times: int = 1) -> asyncio.Task:
        """One of those that wait, as soon as the server knows of them."""
        names = [CellKeys(fleet.name).name("task", task_id) for task_id in task_ids]
        known = [await self._raw.hget(name, "awaited_by") or "" for name in names]
        self._tasks += [asyncio.create_task(collected(fleet, task_ids)) for _ in range(times)]
        async with asyncio.timeout(30):
            while [await self._raw.hget(name, "awaited_by") or "" for name in names] == known:
                await asyncio.sleep(0.01)
        return self._tasks[-1]

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


async def collected(fleet, task_ids) -> list[str]:
    return [result.task_id async for result in fleet.transport.results(task_ids)]


@pytest.fixture
async def waiting(raw):
    waiting = Waiting(raw)
    yield waiting
    await waiting.stop()


async def reads_of(raw) -> int:
    stats = await raw.info("commandstats")
    return sum(stats.get(f"cmdstat_{name}", {"calls": 0})["calls"] for name in ("xread", "hmget"))


async def end_one_by_one(fleet, count: int) -> None:
    await fleet.transport.submit([fleet.request() for _ in range(count)])
    for _ in range(count):
        await fleet.finish(await fleet.claim_one())


async def test_an_end_costs_the_same_however_many_wait_for_other_tasks(make_redis_fleet, raw, waiting):
    fleet = await make_redis_fleet()
    other = await fleet.submit(recipient="build")
    await end_one_by_one(fleet, 1)  # the scripts are known
    before = await reads_of(raw)
    await end_one_by_one(fleet, 20)
    alone = await reads_of(raw) - before
    for _ in range(10):
        await waiting.wait_for(await make_redis_fleet(name=fleet.name), [other.task_id], times=20)

    before = await reads_of(raw)
    await end_one_by_one(fleet, 20)

    # a reader that happens to come back from its wait reads once more
    assert await reads_of(raw) - before <= alone + 20


async def test_all_who_wait_in_a_process_share_one_connection(redis_fleet, raw, waiting):
    requests = [await redis_fleet.submit() for _ in range(100)]
    blocked = (await raw.info("clients"))["blocked_clients"]

    for request in requests:
        await waiting.wait_for(redis_fleet, [request.task_id])

    assert (await raw.info("clients"))["blocked_clients"] <= blocked + 1


async def test_everybody_who_waits_for_a_task_hears_of_its_end(make_redis_fleet):
    fleet = await make_redis_fleet()
    request = await fleet.submit()
    others = [await make_redis_fleet(name=fleet.name) for _ in range(3)]
    collecting = [asyncio.create_task(collected(one, [request.task_id])) for one in (fleet, *others) for _ in range(5)]

    await fleet.finish(await fleet.claim_one())

    async with asyncio.timeout(5):
        assert await asyncio.gather(*collecting) == [[request.task_id]] * 20


async def test_who_asks_for_an_unknown_task_fails_alone(redis_fleet, waiting):
    request = await redis_fleet.submit()
    good = asyncio.create_task(collected(redis_fleet, [request.task_id]))

    with pytest.raises(NotFound):
        await collected(redis_fleet, [request.task_id, new_task_id()])
    await redis_fleet.finish(await redis_fleet.claim_one())

    assert await good == [request.task_id]


async def test_those_who_stop_waiting_leave_nothing_that_grows(redis_fleet, raw):
    request, keys = await redis_fleet.submit(), CellKeys(redis_fleet.name)
    sizes = []
    for _ in range(30):
        with suppress(TimeoutError):
            async with asyncio.timeout(0.02):
                await collected(redis_fleet, [request.task_id])
        sizes.append(await raw.hstrlen(keys.name("task", request.task_id), "awaited_by"))
    await redis_fleet.finish(await redis_fleet.claim_one())

    assert sizes[-1] == max(sizes) == 16  # its process, once
    assert await raw.hget(keys.name("task", request.task_id), "awaited_by") is None
    (news,) = [name async for name in raw.scan_iter(f"{keys.name('news')}:*")]
    assert 0 < await raw.pttl(news) <= results.NEWS_MS


async def test_a_process_that_is_gone_is_told_nothing(make_redis_fleet, raw, waiting):
    fleet = await make_redis_fleet()
    request, keys = await fleet.submit(), CellKeys(fleet.name)
    await waiting.wait_for(await make_redis_fleet(name=fleet.name), [request.task_id])
    await waiting.stop()
    for name in [name async for name in raw.scan_iter(f"{keys.name('news')}:*")]:
        await raw.delete(name)  # as its expiry does

    await fleet.finish(await fleet.claim_one())

    assert [name async for name in raw.scan_iter(f"{keys.name('news')}:*")] == []


async def test_who_waits_is_told_although_the_server_forgot_it(make_redis_fleet, raw, waiting, monkeypatch):
    """As a failover does to a replica that lagged."""
    monkeypatch.setattr(results, "SWEEP_S", 0.1)
    monkeypatch.setattr(results, "MAX_BLOCK_S", 0.1)
    fleet = await make_redis_fleet()
    request, keys = await fleet.submit(), CellKeys(fleet.name)
    ended = await waiting.wait_for(fleet, [request.task_id])
    await raw.hdel(keys.name("task", request.task_id), "awaited_by")
    await raw.delete(*[name async for name in raw.scan_iter(f"{keys.name('news')}:*")])

    await fleet.finish(await fleet.claim_one())

    async with asyncio.timeout(20):
        assert await ended == [request.task_id]


@pytest.mark.parametrize("alive", [True, False], ids=["alive", "gone"])
async def test_a_task_that_very_many_wait_for_is_looked_at(redis_fleet, raw, alive, monkeypatch):
    """Its record names so many processes and no more; those that are gone make room."""
    monkeypatch.setattr(results, "POLL_S", 0.1)
    request, keys = await redis_fleet.submit(), CellKeys(redis_fleet.name)
    name, crowd = keys.name("task", request.task_id), [f"{number:016x}" for number in range(128)]
    await raw.hset(name, "awaited_by", " ".join(crowd))
    for process in crowd if alive else ():
        await raw.xadd(keys.name("news", process), {"ids": ""})
    ended = asyncio.create_task(collected(redis_fleet, [request.task_id]))
    await asyncio.wait({ended}, timeout=0.3)

    named = (await raw.hget(name, "awaited_by")).split()
    assert len(named) == (128 if alive else 1)
    await redis_fleet.finish(await redis_fleet.claim_one())

    async with asyncio.timeout(5):
        assert await ended == [request.task_id]
    for process in crowd:
        await raw.delete(keys.name("news", process))
