"""A fleet on a master and its replica, watched by a sentinel."""

from __future__ import annotations

import asyncio
import functools
import signal

import pytest
import redis

from envelope.lifecycle import State
from envelope.messages import TaskResult
from transport.consumer import Consumer, Delivery
from transport.errors import Misconfigured, Unconfirmed, Unreachable
from transport.keyring import fresh
from transport.limits import Limits
from transport.outbox import Outbox
from transport.redis import client as redis_client
from transport.redis import connect_redis
from transport.redis import servers as redis_servers
from transport.redis import transport as redis_transport

pytestmark = pytest.mark.redis


@pytest.fixture
async def served(start_own_pair, make_memory_fleet):
    """A fleet under a sentinel, a consumer at work in it, and the three processes."""
    master, replica, sentinel = await asyncio.to_thread(start_own_pair)
    url = f"redis+sentinel://127.0.0.1:{sentinel.port}/fleet/0"
    transport = await connect_redis(url, keyring=fresh(), limits=Limits(lease_ms=10_000))
    fleet = type(await make_memory_fleet())(transport)
    stop = asyncio.Event()

    async def handle(delivery: Delivery) -> TaskResult:
        return fleet.result(delivery.claim)

    consumer = Consumer(transport, pool="explore", worker="w", slots=4, handle=handle)
    running = asyncio.create_task(consumer.run(stop))
    yield fleet, (master, replica, sentinel)
    stop.set()
    await running
    await transport.close()


async def submit_and_see_the_end(fleet, count: int) -> set[State]:
    outbox = Outbox(fleet.transport)
    requests = [fleet.request() for _ in range(count)]
    for request in requests:
        await outbox.submit([request])
    return {result.status async for result in outbox.results([request.task_id for request in requests])}


async def order_failover(sentinel) -> None:
    """A sentinel takes a while to know enough of a new replica to promote it, and its log does not say when."""
    while True:
        try:
            return sentinel.command("SENTINEL", "FAILOVER", "fleet")
        except redis.ResponseError as error:
            assert "NOGOODSLAVE" in str(error)
            await asyncio.sleep(0.1)


async def test_an_ordered_failover_under_load_loses_nothing(served):
    fleet, (_, replica, sentinel) = served
    working = asyncio.create_task(submit_and_see_the_end(fleet, 300))
    await fleet.ended((await fleet.submit()).task_id)
    sentinel.forget_log()

    await order_failover(sentinel)
    await asyncio.to_thread(sentinel.wait_for, "+switch-master", 60)

    assert await working == {State.COMPLETED}
    assert replica.command("ROLE")[0] == "master"
    assert await submit_and_see_the_end(fleet, 5) == {State.COMPLETED}


async def test_a_killed_master_is_replaced_and_may_come_back_as_a_replica(served):
    fleet, (master, replica, sentinel) = served
    assert await submit_and_see_the_end(fleet, 5) == {State.COMPLETED}
    sentinel.forget_log()

    master.kill()
    working = asyncio.create_task(submit_and_see_the_end(fleet, 50))
    await asyncio.to_thread(sentinel.wait_for, "+switch-master", 60)
    assert await working == {State.COMPLETED}

    # not before: until a sentinel has told it, the old master would take writes that are forgotten then
    await asyncio.to_thread(master.start)
    await asyncio.to_thread(sentinel.wait_for, "+convert-to-slave", 60)
    assert replica.command("ROLE")[0] == "master"
    assert await submit_and_see_the_end(fleet, 5) == {State.COMPLETED}


async def test_what_was_confirmed_by_a_replica_outlives_the_master(start_own_pair, make_memory_fleet, monkeypatch):
    master, replica, sentinel = await asyncio.to_thread(start_own_pair)
    url, keyring = f"redis+sentinel://127.0.0.1:{sentinel.port}/fleet/0", fresh()
    limits = Limits(wait_replicas=1)
    patient = await connect_redis(url, keyring=keyring, limits=limits)
    monkeypatch.setattr(redis_transport, "Servers", functools.partial(redis_servers.Servers, pauses_s=(0.01,)))
    monkeypatch.setattr(redis_client, "WAIT_MS", 200)
    hasty = await connect_redis(url, keyring=keyring, limits=limits)
    make = type(await make_memory_fleet())(patient)
    confirmed, request = make.request(idempotency_key="k"), make.request()
    await patient.submit([confirmed])

    replica.process.send_signal(signal.SIGSTOP)
    try:
        with pytest.raises(Unconfirmed, match="0 of 1 replicas"):
            await hasty.submit([request])
        with pytest.raises(Unconfirmed):  # it is there by now, and that it is says nothing of the replica
            await hasty.submit([request])
        with pytest.raises(Unconfirmed):
            await hasty.cancel(confirmed.task_id, by="ann", reason="enough")
    finally:
        replica.process.send_signal(signal.SIGCONT)
    (handle,) = await patient.submit([request])
    await patient.cancel(confirmed.task_id, by="ann", reason="enough")
    master.kill()
    await asyncio.to_thread(sentinel.wait_for, "+switch-master", 60)

    assert (handle.task_id, handle.existing) == (request.task_id, False)
    assert (await patient.record(request.task_id)).state is State.PENDING
    assert (await patient.record(confirmed.task_id)).state is State.CANCELLED
    for transport in (patient, hasty):
        await transport.close()


async def test_a_service_that_no_sentinel_knows_is_refused(sentinel_url):
    with pytest.raises(Misconfigured, match="no service 'other'"):
        await connect_redis(sentinel_url.replace("/fleet/", "/other/"), keyring=fresh())


async def test_one_sentinel_that_answers_is_enough(sentinel_url):
    several = sentinel_url.replace("//127", "//127.0.0.1:1,127")

    await (await connect_redis(several, keyring=fresh(), fleet="few")).close()


async def test_sentinels_that_do_not_answer_are_reported(monkeypatch):
    with pytest.raises(Unreachable, match="sentinel") as failure:
        await connect_redis("redis+sentinel://127.0.0.1:1,127.0.0.1:2/fleet", keyring=fresh())
    assert failure.value.hint


async def test_a_password_of_the_servers_does_not_keep_us_from_sentinels_without_one(start_redis):
    master = start_redis("--requirepass", "s3cret")
    rules = f"sentinel monitor fleet 127.0.0.1 {master.port} 1\nsentinel auth-pass fleet s3cret\n"
    sentinel = start_redis(sentinel=rules)

    url = f"redis+sentinel://:s3cret@127.0.0.1:{sentinel.port}/fleet"
    await (await connect_redis(url, keyring=fresh())).close()
    assert redis_servers.named(url).service == "fleet"
