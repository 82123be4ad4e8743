"""Whoever holds a worker's credentials can write into its fleet's keys. What is spoilt stops nobody else."""

from __future__ import annotations

import pytest
import redis.asyncio

from envelope.agents import WorkerCard
from envelope.errors import ErrorCode, MusterError
from transport.base import Wait
from transport.errors import TransportError
from transport.keys import CellKeys

pytestmark = pytest.mark.redis


@pytest.fixture
async def raw(redis_server):
    async with redis.asyncio.Redis(unix_socket_path=redis_server.url.removeprefix("unix://")) as client:
        yield client


def key(fleet, *parts: str) -> str:
    return CellKeys(fleet.name).name(*parts)


@pytest.mark.parametrize(
    ("field", "value"),
    [("checkpoint", b"\xff"), ("accepted", b"x"), ("lost", b"x"), ("expires", b"x"), ("attempt", b"x"), ("flow", None)],
)
async def test_a_record_that_cannot_be_read_stops_no_other(redis_fleet, raw, field, value):
    spoilt, good = await redis_fleet.submit(), await redis_fleet.submit()
    if value is None:
        await raw.hdel(key(redis_fleet, "task", spoilt.task_id), field)
    else:
        await raw.hset(key(redis_fleet, "task", spoilt.task_id), field, value)

    claims = await redis_fleet.transport.claim("explore", "w", slots=5, wait_s=2)

    assert [claim.lease.task_id for claim in claims] == [good.task_id]
    await redis_fleet.finish(claims[0])
    assert await redis_fleet.transport.reap() >= 0


@pytest.mark.parametrize("spoilt_key", ["tasks", "trace"])
async def test_a_key_of_another_kind_keeps_nothing_from_being_accepted(redis_fleet, raw, spoilt_key):
    requests = [redis_fleet.request() for _ in range(4)]
    await raw.set(key(redis_fleet, spoilt_key, requests[-1].trace_id), "junk")

    await redis_fleet.transport.submit(requests)

    started = {claim.lease.task_id for claim in await redis_fleet.transport.claim("explore", "w", slots=9, wait_s=2)}
    assert started == {request.task_id for request in requests}
    assert (await redis_fleet.transport.stats(["explore"]))[0].ready == 0


async def test_a_record_that_was_spoilt_before_its_start_is_a_dead_letter(redis_fleet, raw):
    spoilt = await redis_fleet.submit()
    await raw.hset(key(redis_fleet, "task", spoilt.task_id), "checkpoint", b"\xff")

    assert await redis_fleet.transport.claim("explore", "w", slots=1, wait_s=0) == []

    (letter,) = await redis_fleet.transport.dead_letters()
    assert (letter.task_id, letter.code) == (spoilt.task_id, ErrorCode.BAD_INPUT)


async def test_one_spoilt_card_letter_or_result_hides_no_other(redis_fleet, raw):
    transport = redis_fleet.transport
    card = WorkerCard(worker="w1", pool="explore", slots=1, agents=())
    await transport.announce(card, ttl_s=60)
    await raw.hset(key(redis_fleet, "cards"), "w0", "{junk")
    await raw.zadd(key(redis_fleet, "workers"), {"w0": 2**52})
    assert await transport.workers() == [card]

    await raw.xadd(key(redis_fleet, "dead"), {"task": "x"})
    assert await transport.dead_letters() == []

    one, other = await redis_fleet.submit(), await redis_fleet.submit()
    for claim in await transport.claim("explore", "w", slots=2, wait_s=5):
        await redis_fleet.finish(claim)
    await raw.hset(key(redis_fleet, "task", one.task_id), "result", b"junk")
    results = {result.task_id: result async for result in transport.results([one.task_id, other.task_id])}
    assert results[one.task_id].errors[0].code is ErrorCode.INTERNAL
    assert results[other.task_id].errors == ()


async def test_a_closed_transport_refuses(make_redis_fleet):
    fleet = await make_redis_fleet()
    request = await fleet.submit()
    follower = fleet.transport.follow(request.trace_id)
    await anext(follower)
    await fleet.transport.close()

    with pytest.raises(TransportError, match="closed"):
        await fleet.transport.record(request.task_id)
    with pytest.raises(MusterError):
        await anext(follower)


@pytest.mark.parametrize("listing", ["index", "live", "asking"])
@pytest.mark.parametrize("junk", [{"x": 1.5}, {"x": float("inf")}, {"x": float("-inf")}, {b"\xff\xfe": 5}])
async def test_a_row_that_cannot_be_read_hides_no_other(redis_fleet, raw, listing, junk):
    request = await redis_fleet.submit(tenant="acme")
    claim = await redis_fleet.claim_one()
    await redis_fleet.transport.park(claim.lease, Wait(asks=frozenset({"ask_1"})))
    await raw.zadd(key(redis_fleet, listing), junk)
    await raw.sadd(key(redis_fleet, "awaits", request.task_id), b"\xff")
    await raw.hset(key(redis_fleet, "answers", request.task_id), b"\xff", b"\xff")

    transport = redis_fleet.transport
    pages = [await transport.roots(limit=5), await transport.live_roots(limit=5), await transport.asking(limit=5)]

    assert [[record.task_id for record in page.records] for page in pages] == [[request.task_id]] * 3
    assert await transport.answers(request.task_id)


LAST = "18446744073709551615-18446744073709551615"
HASHES = {
    "reaper": {"at": "x", "lag": "inf", "floor": "nan", "excused": "x"},
    "pace": {"at": "x", "till": "nan"},
    "flight": {"default": "x"},
    "queued": {"default": "9223372036854775807"},
    "usage": {"bytes": "1e300", "tasks": "nan"},
    "counters": {"lost_leases": "x", "fenced_writes": "x"},
    "tenants": {"default": "nan x y z"},
}
SPOILT_FOR_ALL = {
    **{name: lambda raw, name, fields=fields: raw.hset(name, mapping=fields) for name, fields in HASHES.items()},
    **{name: lambda raw, name: raw.xadd(name, {"ids": "", "task": ""}, id=LAST) for name in ("done", "asked", "dead")},
    "later": lambda raw, name: raw.hset(name.removesuffix("later") + "reaper", mapping={"at": 9e13, "floor": 9e15}),
    "pool:explore": lambda raw, name: raw.hset(name, mapping={"vtime": "x", "ready": "inf"}),
    "money:default": lambda raw, name: raw.hset(name, mapping={"spent": "x", "cap": "y", "reserved": "z"}),
}


async def turn(fleet) -> None:
    """Everything that others do goes on."""
    one, other = await fleet.submit(), await fleet.submit()
    claims = await fleet.transport.claim("explore", "w", slots=2, wait_s=5)
    assert {claim.lease.task_id for claim in claims} == {one.task_id, other.task_id}
    [first, second] = claims
    await fleet.finish(first)
    await fleet.transport.answer(second.lease.task_id, "ask_1", "once", by="ann")
    assert await fleet.transport.cancel(second.lease.task_id, by="ann", reason="enough") == 1
    await fleet.finish(second)
    assert await fleet.transport.reap() >= 0
    assert await fleet.ended(one.task_id) and await fleet.ended(other.task_id)


@pytest.mark.parametrize("name", SPOILT_FOR_ALL)
async def test_spoilt_counts_and_moments_stop_nobody(redis_fleet, raw, name):
    await turn(redis_fleet)
    await SPOILT_FOR_ALL[name](raw, key(redis_fleet, *name.split(":")))

    await turn(redis_fleet)


KINDS = (
    "reaper",
    "pace",
    "flight",
    "queued",
    "done",
    "asked",
    "dead",
    "ended",
    "timers",
    "deadlines",
    "chores",
    "pools",
)
LISTS = ("index", "live", "asking", "usage", "tenants", "counters", "workers", "audit")


@pytest.mark.parametrize("name", [*KINDS, *LISTS])
async def test_keys_of_another_kind_stop_nobody(redis_fleet, raw, name):
    await turn(redis_fleet)
    await raw.delete(key(redis_fleet, name))
    await raw.set(key(redis_fleet, name), "junk")

    await turn(redis_fleet)


@pytest.mark.parametrize("mark", ["zzz", "9" * 30, "999999999999999-0", f"{2**64 - 1}-0", "5-" + "9" * 25])
async def test_a_spoilt_mark_does_not_stop_what_is_told_to_others(redis_fleet, raw, mark):
    [notices] = redis_fleet.transport.notices
    await notices.read(wait_s=0.01)
    await raw.hset(key(redis_fleet, "noticemarks"), "done", mark)
    await notices.read(wait_s=0.01)

    await redis_fleet.submit()
    claim = await redis_fleet.claim_one()
    await redis_fleet.finish(claim)
    news = await notices.read(wait_s=5)

    assert [happening.task_id for happening in news.happenings] == [claim.lease.task_id]
    assert await notices.take(news, [])
