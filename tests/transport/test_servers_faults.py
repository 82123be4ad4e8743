"""Servers that are busy, full, gone, cut off, or not what they should be: real ones, and small ones that say so."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from envelope.lifecycle import State
from envelope.messages import TaskResult
from transport.consumer import Consumer, Delivery
from transport.embedded import embedded_redis
from transport.errors import Misconfigured, QueueFull, TransportError, Unreachable
from transport.keyring import fresh
from transport.keys import PROTOCOL, CellKeys
from transport.limits import Limits
from transport.redis import connect_redis
from transport.redis.client import Client
from transport.redis.script import Script
from transport.redis.servers import Servers

pytestmark = pytest.mark.redis

PASSING = {
    "loading": b"-LOADING Redis is loading the dataset in memory\r\n",
    "a replica": b"-READONLY You can't write against a read only replica.\r\n",
    "a replica, as 6.2 says it of a script": b"-ERR Error running script (call to f_1): @user_script:1: "
    b"@user_script: 1: -READONLY You can't write against a read only replica.\r\n",
    "a cluster without a quorum": b"-CLUSTERDOWN The cluster is down\r\n",
    "a slot on its way": b"-TRYAGAIN Multiple keys request during rehashing of slot\r\n",
    "a slot half away": b"-ASK 866 127.0.0.1:1\r\n",
    "a lost master": b"-MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.\r\n",
    "too few replicas": b"-NOREPLICAS Not enough good replicas to write.\r\n",
    "a full disk": b"-MISCONF Errors writing to the AOF file: No space left on device\r\n",
    "a long script": b"-BUSY Redis is busy running a script.\r\n",
    "a demotion": b"-UNBLOCKED force unblock from blocking operation, instance state changed\r\n",
}
ANY_SCRIPT = Script("any", "return 1", "0" * 40)

Behaviour = Callable[[int, asyncio.StreamWriter], None]  # number of the command, and where its answer goes


@asynccontextmanager
async def server_that(behaves: Behaviour) -> AsyncIterator[tuple[str, list[int]]]:
    """Its URL, and the commands that it got: by their numbers, from 1 on."""
    got: list[int] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            while head := await reader.readline():
                for _ in range(int(head[1:])):
                    await reader.readexactly(int((await reader.readline())[1:]) + 2)
                got.append(len(got) + 1)
                behaves(got[-1], writer)
        writer.close()

    listener = await asyncio.start_server(serve, "127.0.0.1")
    try:
        yield f"redis://127.0.0.1:{listener.sockets[0].getsockname()[1]}", got
    finally:
        listener.close()


@asynccontextmanager
async def client_of(url: str, timeout_s: float = 5.0) -> AsyncIterator[Client]:
    servers = Servers(url, pauses_s=(0.01, 0.02, 0.5), timeout_s=timeout_s)
    yield servers.client_of("any")
    await servers.close()


def answer(*answers: bytes) -> Behaviour:
    """These, then the last one for ever."""
    return lambda number, writer: writer.write(answers[min(number, len(answers)) - 1])


@pytest.mark.parametrize("trouble", PASSING)
async def test_what_the_server_did_not_take_is_sent_again_even_when_it_must_not_be_repeated(trouble):
    async with server_that(answer(PASSING[trouble], b":1\r\n")) as (url, got), client_of(url) as client:
        assert await client.run(ANY_SCRIPT, "p", b"", repeatable=False) == 1
    assert got == [1, 2]


@pytest.mark.parametrize("trouble", PASSING)
async def test_trouble_that_does_not_pass_is_reported_as_a_server_that_cannot_be_reached(trouble):
    async with server_that(answer(PASSING[trouble])) as (url, got), client_of(url) as client:
        with pytest.raises(Unreachable) as failure:
            await client.call("GET", "k")
    assert failure.value.hint
    assert len(got) == 4


def cut_in_the_middle(number: int, writer: asyncio.StreamWriter) -> None:
    writer.write(b"$10\r\nhalf" if number == 1 else b"$4\r\nhere\r\n")
    if number == 1:
        writer.close()


async def test_an_answer_that_was_cut_is_asked_for_again():
    async with server_that(cut_in_the_middle) as (url, _), client_of(url) as client:
        assert await client.call("GET", "k") == b"here"


async def test_a_command_that_may_have_been_done_is_not_sent_again_unless_it_may_be_repeated():
    async with server_that(cut_in_the_middle) as (url, got), client_of(url) as client:
        with pytest.raises(Unreachable):
            await client.run(ANY_SCRIPT, "p", b"", repeatable=False)
        assert got == [1]


async def test_a_connection_that_swallows_everything_is_given_up():
    def swallow(number: int, writer: asyncio.StreamWriter) -> None:
        if number > 1:
            writer.write(b"+PONG\r\n")

    async with server_that(swallow) as (url, got), client_of(url, timeout_s=0.2) as client:
        assert await client.call("PING") == b"PONG"
    assert got == [1, 2]


async def test_answers_never_reach_another_command_when_one_of_many_fails():
    replies = answer(b"-ERR no\r\n", b":2\r\n", b":3\r\n")
    async with server_that(replies) as (url, _), client_of(url) as client:
        with pytest.raises(TransportError):
            await client.read_many([("GET", "a"), ("GET", "b")])
        assert await client.call("GET", "c") == 3


async def test_no_command_is_lost_while_the_server_is_killed_and_started_again(start_redis):
    server = start_redis("--appendonly", "yes", "--appendfsync", "always")
    servers = Servers(f"redis://127.0.0.1:{server.port}")
    client = servers.client_of("any")

    async def count_up() -> None:
        for number in range(200):
            await client.call("HSET", "seen", f"{id(asyncio.current_task())}:{number}", 1)

    counting = [asyncio.create_task(count_up()) for _ in range(5)]
    for _ in range(3):
        before = await client.call("HLEN", "seen")
        while await client.call("HLEN", "seen") < min(before + 100, 900):
            pass
        server.kill()
        await asyncio.to_thread(server.start)
    await asyncio.gather(*counting)

    assert await client.call("HLEN", "seen") == 1000
    await servers.close()


async def test_who_finds_no_room_for_another_connection_waits_for_one(start_redis):
    server = start_redis()
    url = f"redis://127.0.0.1:{server.port}"
    first, second = Servers(url), Servers(url)
    await first.client_of("any").call("PING")
    await first.client_of("any").call("CONFIG", "SET", "maxclients", 1)

    waiting = asyncio.create_task(second.client_of("any").call("PING"))
    await asyncio.wait({waiting}, timeout=0.3)
    assert not waiting.done()
    await first.client_of("any").call("CONFIG", "SET", "maxclients", 100)

    assert await waiting == b"PONG"
    await first.close()
    await second.close()


async def test_a_server_that_wants_a_password_says_so(start_redis):
    server = start_redis("--requirepass", "s@me")

    for url in (f"redis://127.0.0.1:{server.port}", f"redis://:wrong@127.0.0.1:{server.port}"):
        with pytest.raises(Misconfigured, match="refuses us") as refusal:
            await connect_redis(url, keyring=fresh())
        assert "password" in refusal.value.hint
    await (await connect_redis(f"redis://:s%40me@127.0.0.1:{server.port}", keyring=fresh())).close()


@pytest.fixture(params=["bundled", "system"])
async def either_server(request, tmp_path) -> AsyncIterator[str]:
    """The oldest Redis that we run on says some things otherwise than newer ones."""
    if request.param == "bundled":
        async with embedded_redis(tmp_path) as server:
            yield server.url
    else:
        yield f"redis://127.0.0.1:{request.getfixturevalue('start_redis')().port}"


async def test_a_server_without_memory_takes_nothing_new_and_says_when_to_come_again(either_server, memory_fleet):
    transport = await connect_redis(either_server, keyring=fresh(), limits=Limits(memory_share=10.0))
    await transport.submit([memory_fleet.request()])
    servers = Servers(either_server)
    await servers.client_of("any").call("CONFIG", "SET", "maxmemory", "1mb")

    with pytest.raises(QueueFull) as refusal:
        await transport.submit([memory_fleet.request()])
    assert refusal.value.retry_after_s > 0
    await servers.close()
    await transport.close()


@pytest.fixture
async def memory_fleet(make_memory_fleet):
    return await make_memory_fleet()


async def test_a_replica_is_refused_with_its_masters_address(start_redis):
    master = start_redis("--repl-diskless-sync-delay", "0")
    replica = start_redis("--replicaof", f"127.0.0.1 {master.port}")
    replica.wait_for("MASTER <-> REPLICA sync: Finished with success", 60)

    with pytest.raises(Misconfigured, match="replica") as refusal:
        await connect_redis(f"redis://127.0.0.1:{replica.port}", keyring=fresh())
    assert "127.0.0.1" in refusal.value.hint


async def test_a_clock_that_differs_too_much_is_refused(redis_server):
    with pytest.raises(Misconfigured, match="clock") as refusal:
        await connect_redis(redis_server.url, keyring=fresh(), limits=Limits(replay_window_ms=0))
    assert "clocks" in refusal.value.hint


async def test_a_program_older_than_its_fleet_is_refused(redis_server):
    servers = Servers(redis_server.url)
    await servers.client_of("any").call("HSET", CellKeys("newer").name("meta"), "protocol", PROTOCOL + 1)
    await servers.close()

    with pytest.raises(Misconfigured, match=f"protocol {PROTOCOL + 1}") as refusal:
        await connect_redis(redis_server.url, keyring=fresh(), fleet="newer")
    assert "upgrade" in refusal.value.hint


async def test_a_fleet_of_an_older_protocol_is_taken_over_once_it_is_empty(redis_server):
    servers, keys = Servers(redis_server.url), CellKeys("older")
    client = servers.client_of("any")
    await client.call("HSET", keys.name("meta"), "protocol", PROTOCOL - 1, "cells", 1)
    await client.call("ZADD", keys.name("deadlines"), 1, "a task under the old keys")

    with pytest.raises(Misconfigured, match="tasks that have not ended"):
        await connect_redis(redis_server.url, keyring=fresh(), fleet="older")

    await client.call("DEL", keys.name("deadlines"))
    await (await connect_redis(redis_server.url, keyring=fresh(), fleet="older")).close()
    assert await client.call("HGET", keys.name("meta"), "protocol") == str(PROTOCOL).encode()
    await servers.close()


async def test_a_fleet_keeps_its_number_of_cells(redis_server):
    await (await connect_redis(redis_server.url, keyring=fresh(), fleet="four", cells=4)).close()

    with pytest.raises(Misconfigured, match="4 cells") as refusal:
        await connect_redis(redis_server.url, keyring=fresh(), fleet="four")
    assert "MUSTER_CELLS=4" in refusal.value.hint


async def test_a_keeper_can_be_stopped_when_its_server_is_gone(start_redis, memory_fleet):
    server = start_redis()
    transport = await connect_redis(f"redis://127.0.0.1:{server.port}", keyring=fresh())
    await transport.submit([memory_fleet.request()])
    (claim,) = await transport.claim("explore", "w", slots=1, wait_s=0)
    keeper = transport.keeper()
    waiting = asyncio.create_task(asyncio.to_thread(keeper.wait, "w", 60))
    await asyncio.to_thread(keeper.renew, [claim.lease])
    server.kill()

    async with asyncio.timeout(45):
        keeper.interrupt()
        await waiting
        with pytest.raises(Unreachable):
            await asyncio.to_thread(keeper.renew, [claim.lease])
        await asyncio.to_thread(keeper.close)
    await transport.close()


async def test_a_keeper_does_not_wait_for_ever_on_a_server_that_swallows_a_renewal(start_redis, memory_fleet):
    server = start_redis()
    transport = await connect_redis(f"redis://127.0.0.1:{server.port}", keyring=fresh(), limits=Limits(lease_ms=2_000))
    request = memory_fleet.request()
    await transport.submit([request])
    (claim,) = await transport.claim("explore", "w", slots=1, wait_s=0)
    keeper = transport.keeper()
    await asyncio.to_thread(keeper.renew, [claim.lease])
    server.process.send_signal(19)  # SIGSTOP: connected, and silent

    with pytest.raises(Unreachable):
        await asyncio.to_thread(keeper.renew, [claim.lease])
    server.process.send_signal(18)  # SIGCONT
    assert (await asyncio.to_thread(keeper.renew, [claim.lease])).lost == frozenset()
    assert (await transport.record(request.task_id)).state is State.RUNNING
    keeper.close()
    await transport.close()


async def test_leases_are_kept_while_the_event_loop_is_blocked(make_redis_fleet):
    fleet = await make_redis_fleet(Limits(lease_ms=600))
    stop = asyncio.Event()

    async def handle(delivery: Delivery) -> TaskResult:
        time.sleep(2.0)  # over three leases, on the loop itself
        return fleet.result(delivery.claim)

    consumer = Consumer(fleet.transport, pool="explore", worker="w", slots=1, handle=handle)
    running = asyncio.create_task(consumer.run(stop))
    request = await fleet.submit()

    assert (await fleet.ended(request.task_id)).status is State.COMPLETED
    record = await fleet.transport.record(request.task_id)
    assert (record.attempt, record.lost_leases) == (1, 0)
    stop.set()
    await running
