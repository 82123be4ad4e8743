"""What is special to the transport on Redis: its server, its keys, its scripts."""

from __future__ import annotations

import asyncio

import pytest
import redis.asyncio

from envelope.agents import AgentCard, WorkerCard
from envelope.errors import CODES, ErrorCode
from envelope.ids import blob_ref
from envelope.lifecycle import State
from transport.errors import NotFound, TransportError
from transport.keys import CellKeys
from transport.limits import Limits

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
    fleet = await make_redis_fleet(Limits(lease_ms=1_000, poison_after=1))
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
    flow = "flow:{pool}:{tenant}:{priority}:{group}"
    assert {"task:{task}", "events:{trace}", "once:{tenant}:{key}", "dead", flow} <= seen


async def test_what_has_ended_is_kept_for_the_retention_time_and_no_longer(make_redis_fleet, raw):
    fleet = await make_redis_fleet(Limits(retention_ms=60_000))
    request = await fleet.submit()
    await fleet.finish(await fleet.claim_one())
    keys = CellKeys(fleet.name)

    for kind, name in (("task", request.task_id), *((k, request.trace_id) for k in ("trace", "tasks", "events"))):
        assert 0 < await raw.pttl(keys.name(kind, name)) <= 60_000


async def test_a_trace_that_goes_on_is_kept_until_its_new_end(make_redis_fleet, raw):
    fleet = await make_redis_fleet(Limits(retention_ms=60_000))
    first = await fleet.submit()
    await fleet.finish(await fleet.claim_one())
    later = await fleet.submit(trace_id=first.trace_id)
    keys = CellKeys(fleet.name)
    names = [keys.name(kind, first.trace_id) for kind in ("trace", "tasks", "events")]

    assert [await raw.pttl(name) for name in names] == [-1, -1, -1]
    await fleet.finish(await fleet.claim_one())
    assert all([0 < await raw.pttl(name) <= 60_000 for name in names])
    assert later.trace_id == first.trace_id


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
    fleet = await make_redis_fleet(Limits(lease_ms=1_000, poison_after=1))
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


async def test_a_claim_whose_connection_is_cut_while_it_waits_goes_on(redis_fleet, raw, monkeypatch):
    monkeypatch.setattr(Limits, "look_ms", 3_600_000)  # it does not look by itself
    async with raw.monitor() as monitor:
        waiting = asyncio.create_task(redis_fleet.claim_one(wait_s=3_600))
        async for seen in monitor.listen():
            if seen["command"].lower().startswith("blpop"):
                break
    for client in [client for client in await raw.client_list() if client["cmd"] == "blpop"]:
        await raw.client_kill_filter(_id=client["id"])

    request = await redis_fleet.submit()

    async with asyncio.timeout(60):
        claim = await waiting
    assert (claim.lease.task_id, claim.lease.attempt, claim.lost_leases) == (request.task_id, 1, 0)


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
