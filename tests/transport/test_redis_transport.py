"""What is special to the transport on Redis: its server, its keys, its scripts."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
import redis.asyncio

from envelope.agents import AgentCard, WorkerCard
from envelope.errors import CODES, ErrorCode
from envelope.ids import blob_ref
from envelope.lifecycle import State
from envelope.messages import TaskResult
from transport import embedded, keyring
from transport.consumer import Consumer, Delivery
from transport.embedded import MAX_SOCKET_PATH_BYTES, embedded_redis, socket_path
from transport.errors import Misconfigured, NotFound, TransportError, Unreachable
from transport.keys import CellKeys
from transport.limits import Limits
from transport.redis import connect_redis
from transport.settings import FleetSettings, connect

pytestmark = pytest.mark.redis


@pytest.fixture
async def raw(redis_server):
    """The server itself, past the transport."""
    client = redis.asyncio.Redis.from_url(redis_server.url)
    yield client
    await client.aclose()


async def whole_life(fleet) -> None:
    """Every operation once."""
    transport = fleet.transport
    root = await fleet.submit(idempotency_key="a:b", budget={"max_cost_microusd": 5})
    claim = await fleet.claim_one()
    await transport.submit([fleet.child(root), fleet.child(root, priority="high", tenant="t")])
    await transport.emit(claim.lease, fleet.progress(claim), charge_microusd=3)
    await transport.checkpoint(claim.lease, await transport.blobs.put(b"state"))
    await transport.announce(WorkerCard(worker="w1", pool="explore", slots=1), ttl_s=60)
    other = await fleet.submit()
    second = await fleet.claim_one()
    await transport.give_back(second.lease)
    await transport.cancel(root.task_id, by="me", reason="test")
    await fleet.finish(claim)
    await fleet.submit(recipient="build", deadline_ms=1)
    await transport.reap()
    assert (await transport.record(other.task_id)).state in set(State)


async def test_every_key_in_the_server_is_in_the_table_with_its_type(make_redis_fleet, raw):
    fleet = await make_redis_fleet(Limits(lease_ms=50, poison_after=1))
    await whole_life(fleet)
    while not (await fleet.transport.counters()).get("poisoned"):  # one for the dead letters
        await fleet.transport.claim("explore", "w2", slots=1, wait_s=0.2)
    await fleet.submit()
    keys = CellKeys(fleet.name)

    seen = set()
    async for name in raw.scan_iter(match=f"*muster:{fleet.name}:*"):
        text = name.decode()
        if ":blob:" in text and not text.startswith("{"):
            continue
        row = keys.key_of(text)
        assert row is not None, text
        assert (await raw.type(name)).decode() == row.type, text
        seen.add(row.pattern)
    flow = "flow:{pool}:{priority}:{tenant}:{trace}"
    assert {"task:{task}", "events:{trace}", "once:{tenant}:{key}", "dead", flow} <= seen


async def test_what_has_ended_is_kept_for_the_retention_time_and_no_longer(make_redis_fleet, raw):
    fleet = await make_redis_fleet(Limits(retention_ms=60_000))
    request = await fleet.submit()
    await fleet.finish(await fleet.claim_one())
    keys = CellKeys(fleet.name)

    for kind, name in (("task", request.task_id), *((k, request.trace_id) for k in ("trace", "tasks", "events"))):
        assert 0 < await raw.pttl(keys.name(kind, name)) <= 60_000


async def test_scripts_are_loaded_again_when_the_server_has_forgotten_them(redis_fleet, raw):
    request = await redis_fleet.submit()
    await raw.script_flush()
    claim = await redis_fleet.claim_one()
    keeper = redis_fleet.transport.keeper()
    await raw.script_flush()
    assert keeper.renew([claim.lease]).lost == frozenset()
    keeper.close()
    await raw.script_flush()

    await redis_fleet.finish(claim)

    assert (await redis_fleet.transport.result(request.task_id)).status is State.COMPLETED


async def test_results_that_the_queue_makes_carry_the_codes_of_the_table(make_redis_fleet):
    fleet = await make_redis_fleet(Limits(lease_ms=50, poison_after=1))
    poison = await fleet.submit()
    await fleet.claim_one()
    expired = await fleet.submit(recipient="build", deadline_ms=1)
    cancelled = await fleet.submit(recipient="build")
    await fleet.transport.cancel(cancelled.task_id, by="me", reason="stop ü")

    for request, code in (
        (poison, ErrorCode.POISON),
        (expired, ErrorCode.DEADLINE),
        (cancelled, ErrorCode.CANCELLED),
    ):
        while (result := await fleet.transport.result(request.task_id)) is None:
            await fleet.transport.claim("none", "w", slots=1, wait_s=0.05)
            await fleet.transport.reap()
        (error,) = result.errors
        assert (error.code, error.retryable, error.turn) == (code, CODES[code].retryable, CODES[code].turn)
    assert error.message == "stop ü"


async def test_a_poisoned_task_is_listed_among_the_dead_letters(make_redis_fleet, raw):
    fleet = await make_redis_fleet(Limits(lease_ms=50, poison_after=1))
    request = await fleet.submit()
    await fleet.claim_one()
    await fleet.transport.claim("explore", "w2", slots=1, wait_s=0.2)

    ((_, letter),) = await raw.xrange(CellKeys(fleet.name).name("dead"))

    assert letter[b"task"].decode() == request.task_id
    assert letter[b"why"] == b"poison"


async def test_a_traces_stream_is_bounded(make_redis_fleet, raw):
    fleet = await make_redis_fleet(Limits(max_entries=100))
    request = await fleet.submit()
    claim = await fleet.claim_one()
    await asyncio.gather(*(fleet.transport.emit(claim.lease, fleet.progress(claim)) for _ in range(600)))

    # trimming is by whole nodes of the stream, 100 entries each by default
    assert await raw.xlen(CellKeys(fleet.name).name("events", request.trace_id)) <= 200


async def test_an_idle_worker_costs_at_most_one_command_a_second(redis_fleet, raw):
    async def commands() -> int:
        stats = await raw.info("commandstats")
        return sum(
            stats[f"cmdstat_{name}"]["calls"] for name in ("eval", "evalsha", "blpop") if f"cmdstat_{name}" in stats
        )

    assert await redis_fleet.transport.claim("explore", "w", slots=1, wait_s=0.01) == []  # the script is known
    before = await commands()
    assert await redis_fleet.transport.claim("explore", "w", slots=1, wait_s=3) == []

    assert await commands() - before <= 3


async def test_workers_are_listed_until_they_are_forgotten(redis_fleet):
    agent = AgentCard(name="explore", mode="subagent", pool="explore")
    card = WorkerCard(worker="w1", pool="explore", slots=4, agents=(agent,))
    await redis_fleet.transport.announce(card, ttl_s=60)
    await redis_fleet.transport.announce(card.model_copy(update={"worker": "w2"}), ttl_s=0.001)
    gone_at_ms = await redis_fleet.transport.now_ms() + 2
    while await redis_fleet.transport.now_ms() <= gone_at_ms:
        pass

    assert await redis_fleet.transport.workers() == [card]


async def test_fleets_on_one_server_do_not_see_each_other(make_redis_fleet):
    one, other = await make_redis_fleet(), await make_redis_fleet()
    request = await one.submit()

    with pytest.raises(NotFound):
        await other.transport.record(request.task_id)
    assert await other.transport.claim("explore", "w", slots=1, wait_s=0) == []


async def test_tenants_have_the_weights_that_an_operator_gave_them(redis_fleet, raw):
    await raw.hset(CellKeys(redis_fleet.name).name("weights"), "heavy", "3")
    requests = {t: [redis_fleet.request(tenant=t) for _ in range(40)] for t in ("heavy", "light")}
    for batch in requests.values():
        trace = batch[0].trace_id
        await redis_fleet.transport.submit([r.model_copy(update={"trace_id": trace}) for r in batch])

    claims = await redis_fleet.transport.claim("explore", "w", slots=40, wait_s=0)

    heavy = {r.task_id for r in requests["heavy"]}
    assert sum(claim.lease.task_id in heavy for claim in claims) == pytest.approx(30, abs=2)


async def test_blobs_are_kept_under_their_content(redis_fleet, raw):
    blobs = redis_fleet.transport.blobs
    ref = await blobs.put(b"content")

    assert ref == blob_ref(b"content") == await blobs.put(b"content")
    assert await blobs.get(ref) == b"content"
    await raw.set(f"muster:{redis_fleet.name}:blob:{ref}", b"forged")
    with pytest.raises(TransportError, match="changed"):
        await blobs.get(ref)
    with pytest.raises(NotFound):
        await blobs.get(blob_ref(b"never stored"))


# -- servers that are not as they should be


async def test_a_server_that_would_forget_is_refused_with_a_hint(redis_server, raw):
    await raw.config_set("maxmemory-policy", "allkeys-lru")
    try:
        with pytest.raises(Misconfigured, match="allkeys-lru") as refusal:
            await connect_redis(redis_server.url, keyring=keyring.fresh())
    finally:
        await raw.config_set("maxmemory-policy", "noeviction")
    assert "noeviction" in refusal.value.hint


async def test_a_server_that_is_not_there_is_reported_with_a_hint(tmp_path):
    with pytest.raises(Unreachable) as failure:
        await connect_redis(f"unix://{tmp_path}/none.sock", keyring=keyring.fresh())
    assert failure.value.hint


async def test_a_killed_server_comes_back_with_all_it_had_accepted(tmp_path, redis_fleet):
    keys = keyring.fresh()
    async with AsyncExitStack() as first:
        server = await first.enter_async_context(embedded_redis(tmp_path))
        transport = await connect_redis(server.url, keyring=keys)
        fleet = type(redis_fleet)(transport)
        ended, queued = await fleet.submit(), await fleet.submit()  # they start in this order
        await fleet.finish(await fleet.claim_one())
        await fleet.transport.claim("none", "w", slots=1, wait_s=1.5)  # until the file is on the disk
        os.kill(server.pid, signal.SIGKILL)

    async with embedded_redis(tmp_path):  # the same transport finds it again by itself
        assert (await transport.result(ended.task_id)).status is State.COMPLETED
        assert (await fleet.claim_one()).lease.task_id == queued.task_id
        await transport.close()


async def test_a_worker_outlives_a_restart_of_its_server(tmp_path, redis_fleet):
    started, go_on, stop = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def handle(delivery: Delivery):
        started.set()
        await go_on.wait()
        return fleet.result(delivery.claim, "after all")

    async with AsyncExitStack() as first:
        server = await first.enter_async_context(embedded_redis(tmp_path))
        transport = await connect_redis(server.url, keyring=keyring.fresh())
        fleet = type(redis_fleet)(transport)
        consumer = Consumer(transport, pool="explore", worker="w1", slots=2, handle=handle)
        running = asyncio.create_task(consumer.run(stop))
        before = await fleet.submit()
        await started.wait()
        await fleet.transport.claim("none", "w", slots=1, wait_s=1.5)  # until the file is on the disk
        os.kill(server.pid, signal.SIGKILL)

    go_on.set()  # its result is ready while nobody is there to take it
    async with embedded_redis(tmp_path), asyncio.timeout(30):
        after = await fleet.submit()
        assert {r.output.text async for r in transport.results([before.task_id, after.task_id])} == {"after all"}
        assert (await transport.record(before.task_id)).attempt == 1
        stop.set()
        await running
        await transport.close()


# -- the embedded server, settings, keys


async def test_an_embedded_server_tells_what_it_is(redis_server):
    assert redis_server.program.exists()
    assert tuple(map(int, redis_server.version.split(".")[:2])) >= (6, 2)
    assert redis_server.url.startswith("unix://")


async def test_an_older_server_is_refused_on_a_newer_ones_files(tmp_path):
    (tmp_path / "redis").mkdir()
    (tmp_path / "redis" / "server-version").write_text("99.0.0")

    with pytest.raises(Misconfigured, match=r"99\.0\.0"):
        async with embedded_redis(tmp_path):
            raise AssertionError("it started")


async def test_one_state_folder_has_one_server(tmp_path, monkeypatch):
    monkeypatch.setattr(embedded, "LOCK_TIMEOUT_S", 0.1)
    async with embedded_redis(tmp_path) as server:
        with pytest.raises(Misconfigured, match="already"):
            async with embedded_redis(tmp_path):
                raise AssertionError("it started")
        await (await connect_redis(server.url, keyring=keyring.fresh())).close()  # the first one is unharmed


async def test_a_server_that_cannot_start_is_reported(tmp_path):
    (tmp_path / "redis").mkdir()
    (tmp_path / "redis" / "appendonly.aof").write_text("this is no append-only file")
    (tmp_path / "redis" / "appendonlydir").write_text("nor is this a folder")

    with pytest.raises(Unreachable) as failure:
        async with embedded_redis(tmp_path):
            raise AssertionError("it started")
    assert "redis.log" in failure.value.hint


async def test_no_server_is_left_behind(tmp_path):
    async with embedded_redis(tmp_path) as server:
        assert Path(f"/proc/{server.pid}").exists()

    assert not Path(f"/proc/{server.pid}").exists()
    assert not socket_path(tmp_path).exists()


def test_a_socket_path_is_short_wherever_the_state_folder_is(tmp_path):
    assert len(os.fsencode(socket_path(tmp_path / ("x" * 200)))) <= MAX_SOCKET_PATH_BYTES


async def test_settings_lead_to_the_embedded_fleet_of_the_state_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("MUSTER_STATE_DIR", str(tmp_path))
    monkeypatch.setenv("MUSTER_LEASE_S", "2.5")
    monkeypatch.delenv("MUSTER_REDIS_URL", raising=False)
    settings = FleetSettings()

    with pytest.raises(Unreachable) as failure:
        await connect(settings)
    assert "muster up" in failure.value.hint

    async with embedded_redis(tmp_path):
        transport = await connect(settings)
        assert transport.limits.lease_ms == 2500
        large = await transport.blobs.put(b"x" * 100_000)
        small = await transport.blobs.put(b"x")
        assert (await transport.blobs.get(large), await transport.blobs.get(small)) == (b"x" * 100_000, b"x")
        assert len([file for file in (tmp_path / "blobs").rglob("*") if file.is_file()]) == 1
        await transport.close()
    assert json.loads(settings.keyring_path.read_text())["current"] == "k1"


async def test_a_result_is_stored_once_even_when_two_claim_to_have_it(make_redis_fleet):
    fleet = await make_redis_fleet(Limits(lease_ms=100))
    request = await fleet.submit()
    first = await fleet.claim_one("w1")
    second = await fleet.claim_one("w2")
    outcomes = await asyncio.gather(
        fleet.finish(first, "first"), fleet.finish(second, "second"), return_exceptions=True
    )

    assert [type(outcome).__name__ for outcome in outcomes] == ["Fenced", "TaskResult"]
    entries = [entry.message async for entry in fleet.transport.follow(request.trace_id)]
    assert [m.output.text for m in entries if isinstance(m, TaskResult)] == ["second"]
