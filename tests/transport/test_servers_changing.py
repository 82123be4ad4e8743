"""A Redis Cluster that changes under its fleet: slots move, masters die."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest
from redis.crc import key_slot

from envelope.ids import new_trace_id
from envelope.lifecycle import State
from envelope.messages import TaskResult
from transport.consumer import Consumer, Delivery
from transport.keyring import fresh
from transport.keys import CellKeys, cell_of
from transport.limits import Limits
from transport.redis import connect_redis

pytestmark = pytest.mark.redis


def trace_in(cell: int) -> str:
    while cell_of(trace := new_trace_id(), 4) != cell:
        pass
    return trace


@pytest.fixture
async def changing(start_own_cluster, make_memory_fleet) -> AsyncIterator[tuple]:
    """A fleet of four cells, and the masters under it."""
    own_cluster = await asyncio.to_thread(start_own_cluster)
    url = "redis+cluster://" + ",".join(f"127.0.0.1:{node.port}" for node in own_cluster)
    async with AsyncExitStack() as stack:
        transport = await connect_redis(url, keyring=fresh(), cells=4, limits=Limits(lease_ms=5_000))
        stack.push_async_callback(transport.close)
        yield type(await make_memory_fleet())(transport, name="main"), own_cluster


def owner_of(masters: list, slot: int):
    return next(node for node in masters if slot * len(masters) // 16384 == masters.index(node))


async def test_a_slot_that_moves_while_tasks_run_loses_none_of_them(changing):
    fleet, masters = changing
    slot = key_slot(CellKeys("main", 0).prefix.encode())
    source = owner_of(masters, slot)
    target = next(node for node in masters if node is not source)
    done: list[str] = []
    stop = asyncio.Event()

    async def handle(delivery: Delivery) -> TaskResult:
        done.append(delivery.request.task_id)
        return fleet.result(delivery.claim)

    consumer = Consumer(fleet.transport, pool="explore", worker="w", slots=8, handle=handle)
    running = asyncio.create_task(consumer.run(stop))
    requests = [fleet.request(trace_id=trace_in(number % 4)) for number in range(400)]

    async def submit_all() -> None:
        for start in range(0, len(requests), 10):
            await fleet.transport.submit(requests[start : start + 10])

    submitting = asyncio.create_task(submit_all())
    while not done:
        await asyncio.wait({submitting}, timeout=0.01)
    await asyncio.to_thread(move_slot, masters, slot, source, target)
    await submitting
    results = [result async for result in fleet.transport.results([request.task_id for request in requests])]
    stop.set()
    await running

    assert sorted(done) == sorted(request.task_id for request in requests)
    assert {result.status for result in results} == {State.COMPLETED}
    assert target.command("CLUSTER", "COUNTKEYSINSLOT", slot) > 0
    assert source.command("CLUSTER", "COUNTKEYSINSLOT", slot) == 0


def move_slot(masters: list, slot: int, source, target) -> None:
    """As `redis-cli --cluster reshard` does it."""
    source_id, target_id = (node.command("CLUSTER", "MYID") for node in (source, target))
    target.command("CLUSTER", "SETSLOT", slot, "IMPORTING", source_id)
    source.command("CLUSTER", "SETSLOT", slot, "MIGRATING", target_id)
    while keys := source.command("CLUSTER", "GETKEYSINSLOT", slot, 100):
        source.command("MIGRATE", "127.0.0.1", target.port, "", 0, 5000, "KEYS", *keys)
    for node in (target, source, *masters):
        node.command("CLUSTER", "SETSLOT", slot, "NODE", target_id)


async def test_a_master_that_is_away_holds_up_its_own_cells_only(changing):
    fleet, masters = changing
    slots = {cell: key_slot(CellKeys("main", cell).prefix.encode()) for cell in range(4)}
    dead = owner_of(masters, slots[0])
    alive = [cell for cell, slot in slots.items() if owner_of(masters, slot) is not dead]
    assert alive
    keeper = fleet.transport.keeper()
    await fleet.transport.submit([fleet.request(trace_id=trace_in(cell)) for cell in range(4)])
    held = await fleet.transport.claim("explore", "w", slots=4, wait_s=0)
    dead.kill()

    requests = [fleet.request(trace_id=trace_in(cell)) for cell in alive]
    await fleet.transport.submit(requests)
    claims = await fleet.transport.claim("explore", "w", slots=9, wait_s=20)
    renewal = await asyncio.to_thread(keeper.renew, [claim.lease for claim in held])

    assert {claim.lease.task_id for claim in claims} == {request.task_id for request in requests}
    assert renewal.lost == frozenset()
    await asyncio.to_thread(dead.start)
    assert (await asyncio.to_thread(keeper.renew, [claim.lease for claim in held])).lost == frozenset()
    keeper.close()
