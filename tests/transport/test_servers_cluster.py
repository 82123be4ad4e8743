"""A fleet of four cells, on a Redis Cluster of three masters."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest
from redis.crc import key_slot

from envelope.agents import WorkerCard
from envelope.ids import new_task_id, new_trace_id
from transport.base import Allotment
from transport.errors import Misconfigured, NotFound, Refused
from transport.keyring import fresh
from transport.keys import cell_of
from transport.limits import Limits
from transport.money import Ledger
from transport.redis import connect_redis

pytestmark = pytest.mark.redis


@pytest.fixture
async def wide_fleet(make_cluster_fleet):
    return await make_cluster_fleet()


def trace_in(cell: int) -> str:
    while cell_of(trace := new_trace_id(), 4) != cell:
        pass
    return trace


async def one_in_each_cell(fleet, **fields) -> list:
    requests = [fleet.request(trace_id=trace_in(cell), **fields) for cell in range(4)]
    await fleet.transport.submit(requests)
    return requests


async def test_handles_come_in_the_order_of_the_requests_whatever_their_cells(wide_fleet):
    requests = [wide_fleet.request() for _ in range(40)]

    handles = await wide_fleet.transport.submit(requests)

    assert [handle.task_id for handle in handles] == [request.task_id for request in requests]


async def test_one_claim_takes_from_all_cells(wide_fleet):
    requests = await one_in_each_cell(wide_fleet)

    claims = await wide_fleet.transport.claim("explore", "w", slots=4, wait_s=0)

    assert {claim.lease.task_id for claim in claims} == {request.task_id for request in requests}


async def test_every_cell_gets_its_turn(wide_fleet):
    for _ in range(4):
        await one_in_each_cell(wide_fleet)

    starts = Counter[int]()
    for _ in range(8):
        (claim,) = await wide_fleet.transport.claim("explore", "w", slots=1, wait_s=0)
        starts[cell_of(claim.lease.trace_id, 4)] += 1

    assert starts == {0: 2, 1: 2, 2: 2, 3: 2}


@pytest.mark.parametrize("cell", range(4))
async def test_a_ring_in_any_cell_wakes_an_idle_worker(wide_fleet, cell, monkeypatch):
    monkeypatch.setattr(Limits, "look_ms", 3_600_000)  # it does not look by itself
    waiting = asyncio.create_task(wide_fleet.claim_one(wait_s=3_600))
    await asyncio.wait({waiting}, timeout=0.2)
    request = await wide_fleet.submit(trace_id=trace_in(cell))

    async with asyncio.timeout(60):
        assert (await waiting).lease.task_id == request.task_id


async def test_a_ring_that_comes_when_nobody_listens_any_more_is_for_the_next(
    wide_fleet, make_cluster_fleet, monkeypatch
):
    """The first worker was listening in all cells, and is busy now."""
    monkeypatch.setattr(Limits, "look_ms", 3_600_000)  # nobody looks by itself before a lease ends, after 15 s
    other = await make_cluster_fleet(name=wide_fleet.name)
    await asyncio.gather(wide_fleet.claim_one("w1", wait_s=30), wide_fleet.submit(trace_id=trace_in(0)))
    waiting = asyncio.create_task(other.claim_one("w2", wait_s=30))
    await asyncio.wait({waiting}, timeout=0.2)
    await wide_fleet.transport.submit([wide_fleet.request(trace_id=trace_in(cell)) for cell in (1, 2, 3)])

    async with asyncio.timeout(14):
        assert (await waiting).lease.attempt == 1


async def test_a_task_is_found_by_who_did_not_submit_it(wide_fleet, make_cluster_fleet):
    other = await make_cluster_fleet(name=wide_fleet.name)
    requests = await one_in_each_cell(wide_fleet)

    for request in requests:
        assert (await other.transport.request(request.task_id)).trace_id == request.trace_id
    with pytest.raises(NotFound):
        await other.transport.record(new_task_id())


async def test_results_of_all_cells_come_as_they_end(wide_fleet, make_cluster_fleet):
    other = await make_cluster_fleet(name=wide_fleet.name)
    requests = await one_in_each_cell(wide_fleet)
    results = other.transport.results([request.task_id for request in requests])

    for claim in reversed(await wide_fleet.transport.claim("explore", "w", slots=4, wait_s=0)):
        await wide_fleet.finish(claim)
        assert (await anext(results)).task_id == claim.lease.task_id
    with pytest.raises(StopAsyncIteration):
        await anext(results)


async def test_many_tasks_of_others_are_looked_up_together(wide_fleet, make_cluster_fleet):
    other = await make_cluster_fleet(name=wide_fleet.name)
    requests = [wide_fleet.request() for _ in range(1_200)]
    await wide_fleet.transport.submit(requests)
    while claims := await wide_fleet.transport.claim("explore", "w", slots=100, wait_s=0):
        await asyncio.gather(*(wide_fleet.finish(claim) for claim in claims))

    ids = {request.task_id for request in requests}
    assert {result.task_id async for result in other.transport.results(ids)} == ids
    with pytest.raises(NotFound):
        await anext(other.transport.results([*ids, new_task_id()]))


async def test_the_latest_roots_are_those_of_all_cells(wide_fleet):
    requests = [request for _ in range(3) for request in await one_in_each_cell(wide_fleet)]

    listed = await wide_fleet.transport.tasks(limit=4)
    times = [record.accepted_at_ms for record in await wide_fleet.transport.tasks()]

    assert {record.task_id for record in listed} <= {request.task_id for request in requests}
    assert (len(listed), len(times), times) == (4, 12, sorted(times, reverse=True))


async def test_figures_are_of_all_cells_together(wide_fleet):
    await one_in_each_cell(wide_fleet)
    await wide_fleet.transport.claim("explore", "w", slots=1, wait_s=0)

    (stats,) = await wide_fleet.transport.stats(["explore"])

    assert (stats.ready, stats.running) == (3, 1)


async def test_what_is_submitted_under_one_key_must_be_made_for_one_home(wide_fleet):
    with pytest.raises(Refused) as refusal:
        await wide_fleet.submit(idempotency_key="k", trace_id=new_trace_id())
    assert refusal.value.field == "trace_id"
    assert "new_trace_id" in refusal.value.hint

    first = wide_fleet.request(idempotency_key="k", tenant="t")
    second = wide_fleet.request(idempotency_key="k", tenant="t")
    (handle,), (again,) = [await wide_fleet.transport.submit([request]) for request in (first, second)]
    assert (again.task_id, again.existing) == (handle.task_id, True)


async def test_a_session_goes_on_beside_its_first_trace_only(wide_fleet):
    request = await wide_fleet.submit()
    claim = await wide_fleet.claim_one()
    await wide_fleet.transport.checkpoint(claim.lease, await wide_fleet.transport.blobs.put(b"messages"))
    await wide_fleet.finish(claim)
    elsewhere = trace_in((cell_of(request.trace_id, 4) + 1) % 4)

    with pytest.raises(Refused) as refusal:
        await wide_fleet.submit(resume_token=request.task_id, trace_id=elsewhere)
    assert refusal.value.field == "trace_id"
    await wide_fleet.submit(resume_token=request.task_id, trace_id=new_trace_id(near=request.trace_id))
    assert (await wide_fleet.claim_one()).session is not None


async def test_a_tenants_cap_holds_in_every_cell(wide_fleet):
    await wide_fleet.transport.allot("t", Allotment(weight=2, max_running=2))
    for _ in range(4):
        await one_in_each_cell(wide_fleet, tenant="t")

    claims = await wide_fleet.transport.claim("explore", "w", slots=16, wait_s=0)

    assert Counter(cell_of(claim.lease.trace_id, 4) for claim in claims) == {0: 2, 1: 2, 2: 2, 3: 2}
    assert await wide_fleet.transport.allotments() == {"t": Allotment(weight=2, max_running=2)}


async def test_a_worker_writes_children_and_other_roots_under_its_lease(wide_fleet):
    """Shards are traces of their own, in whatever cell; a worker whose lease is gone starts none of them."""
    root = await wide_fleet.submit()
    claim = await wide_fleet.claim_one()
    shards = [wide_fleet.request(trace_id=trace_in(cell), recipient="build") for cell in range(4)]
    await wide_fleet.transport.submit([wide_fleet.child(root, recipient="build"), *shards], under=claim.lease)
    await wide_fleet.finish(claim)

    with pytest.raises(Exception, match="no longer"):
        await wide_fleet.transport.submit(
            [wide_fleet.request(trace_id=trace_in(cell)) for cell in range(4)], under=claim.lease
        )
    assert await wide_fleet.transport.claim("explore", "w", slots=9, wait_s=0) == []


async def test_blobs_spread_over_the_nodes_and_are_found_again(wide_fleet):
    contents = [f"content {number}".encode() for number in range(30)]
    refs = [await wide_fleet.transport.blobs.put(content) for content in contents]

    assert [await wide_fleet.transport.blobs.get(ref) for ref in refs] == contents
    slots = {key_slot(f"muster:{wide_fleet.name}:blob:{ref}".encode()) * 3 // 16384 for ref in refs}
    assert slots == {0, 1, 2}


async def test_workers_are_listed_once(wide_fleet):
    card = WorkerCard(worker="w1", pool="rare", slots=4)
    await wide_fleet.transport.announce(card, ttl_s=60)

    assert await wide_fleet.transport.workers() == [card]
    await wide_fleet.submit(recipient="rare", trace_id=trace_in(3))  # known in all cells


async def test_a_keeper_renews_in_all_cells_and_hears_of_a_cancel_in_any(make_cluster_fleet):
    fleet = await make_cluster_fleet(Limits(lease_ms=1_000))
    requests = await one_in_each_cell(fleet)
    claims = await fleet.transport.claim("explore", "w", slots=4, wait_s=0)
    keeper = fleet.transport.keeper()
    for request in requests:
        waiting = asyncio.create_task(asyncio.to_thread(keeper.wait, "w", 10))
        await asyncio.wait({waiting}, timeout=0.05)
        assert not (await asyncio.to_thread(keeper.renew, [claim.lease for claim in claims])).lost
        await fleet.transport.cancel(request.task_id, by="me", reason="enough")
        await waiting
        renewal = await asyncio.to_thread(keeper.renew, [claim.lease for claim in claims])
        assert renewal.cancelled[request.task_id] == "enough"
    keeper.close()


async def test_a_plain_url_to_a_node_is_refused_with_the_right_one(cluster_url):
    node = cluster_url.removeprefix("redis+cluster://").split(",")[0]

    with pytest.raises(Misconfigured) as refusal:
        await connect_redis(f"redis://{node}", keyring=fresh())
    assert "redis+cluster://" in refusal.value.hint


async def test_one_node_of_the_url_is_enough(cluster_url):
    node = cluster_url.removeprefix("redis+cluster://").split(",")[2]

    transport = await connect_redis(f"redis+cluster://127.0.0.1:1,{node}", keyring=fresh(), fleet="few", cells=4)
    assert await transport.reap() == 0
    await transport.close()


async def test_a_tenants_cap_is_shared_by_the_cells_in_equal_parts(wide_fleet):
    fleet = wide_fleet
    await fleet.transport.fund("ann", 100, by="test")
    for _ in range(12):
        await fleet.submit(tenant="ann")
    claims = await fleet.transport.claim("explore", "w", slots=12, wait_s=5)

    granted = [await fleet.transport.reserve(claim.lease, 20) for claim in claims]

    per_cell = {cell_of(claim.lease.trace_id, 4) for claim in claims}
    assert sum(grant is not None for grant in granted) == len(per_cell)
    assert await fleet.transport.funds("ann") == Ledger(0, 100, 20 * len(per_cell))


async def test_roots_are_listed_page_by_page_over_all_cells(wide_fleet):
    fleet = wide_fleet
    mine = [(await fleet.submit(tenant="ann")).task_id for _ in range(7)]
    await fleet.submit(tenant="bob")

    first = await fleet.transport.roots(tenant="ann", limit=4)
    rest = await fleet.transport.roots(tenant="ann", after=first.cursor, limit=4)

    assert sorted(record.task_id for record in (*first.records, *rest.records)) == sorted(mine)
    assert (len(first.records), len(rest.records), rest.cursor) == (4, 3, "")
