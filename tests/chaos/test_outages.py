"""Issue 17, row 1: servers that are away for longer than a lease, again and again, under workers that go on."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest
from lab.checks import FORGETFUL, violations
from lab.crew import Crew
from lab.figures import report
from lab.fleet import LEASE_MS, LIMITS, Fleet, MakeFleet
from lab.job import Job, request
from lab.pair import sentinel_pair
from lab.processes import Nursery
from lab.reader import read_history
from lab.schedule import SOAK
from lab.server import Server
from lab.waiting import results, running
from redis.crc import key_slot

from envelope.ids import new_trace_id
from envelope.lifecycle import State
from transport.keys import CellKeys

pytestmark = [
    pytest.mark.chaos,
    pytest.mark.redis,
    pytest.mark.skipif(not SOAK, reason="MUSTER_CHAOS=soak is not set"),
]

AWAY_S = 2 * LEASE_MS / 1000
OUTAGES, TASKS, WORKERS, SLOTS = 3, 24, 4, 8  # one worker's slots are free: it looks for what is over
# A single loss that is not excused ends a task.
STRICT = replace(LIMITS, poison_after=1)
# Longer than all outages together: what is healthy runs through them.
LONG = Job(turns_ms=(250,) * 100)

Outage = Callable[[], Awaitable[None]]


async def held_through(fleet: Fleet, nursery: Nursery, outages: list[Outage], *, dies: bool = False) -> None:
    """And no promise is broken."""
    await survive(fleet, nursery, outages, dies=dies)
    assert violations(await read_history(fleet)) == []


async def survive(fleet: Fleet, nursery: Nursery, outages: list[Outage], *, dies: bool = False) -> None:
    """Tasks that run through all of the outages; `dies`: one of the workers, in the first of them."""
    trace_id = new_trace_id()
    requests = [request(LONG, trace_id=trace_id) for _ in range(TASKS)]
    async with fleet.connected() as transport, Crew(nursery, fleet, WORKERS, slots=SLOTS) as crew:
        await crew.whole()
        await transport.submit(requests)
        await running(transport, trace_id, TASKS)
        victim = (await transport.record(requests[0].task_id)).worker
        for number, outage in enumerate(outages):
            away = asyncio.create_task(outage())
            if dies and number == 0:
                await asyncio.sleep(AWAY_S / 2)
                crew.named(victim).kill()
            await away
            await asyncio.sleep(AWAY_S / 2)
        ended = await results(transport, [request.task_id for request in requests])
        records = [await transport.record(request.task_id) for request in requests]
        counted = await transport.counters()

    lost = [record.lost_leases for record in records]
    report("outages", outages=len(outages), away_s=AWAY_S, tasks=TASKS, lost=sum(lost), counters=counted)
    assert {result.status for result in ended.values()} == {State.COMPLETED}
    assert counted.get("poisoned", 0) == 0
    assert max(lost) == (1 if dies else 0)
    assert [record.attempt for record in records] == [each + 1 for each in lost]


@pytest.mark.parametrize("dies", [False, True], ids=["all workers live", "a worker dies meanwhile"])
async def test_a_killed_server_costs_no_healthy_task(
    make_fleet: MakeFleet, nursery: Nursery, server: Server, dies: bool
):
    async def restart() -> None:
        await server.kill()
        await asyncio.sleep(AWAY_S)
        await server.start()

    await held_through(make_fleet(STRICT), nursery, [restart] * OUTAGES, dies=dies)


@pytest.mark.parametrize("dies", [False, True], ids=["all workers live", "a worker dies meanwhile"])
async def test_a_frozen_server_costs_no_healthy_task(
    make_fleet: MakeFleet, nursery: Nursery, server: Server, dies: bool
):
    async def freeze() -> None:
        server.pause()
        await asyncio.sleep(AWAY_S)
        server.resume()

    await held_through(make_fleet(STRICT), nursery, [freeze] * OUTAGES, dies=dies)


async def test_a_failover_costs_no_healthy_task(
    make_fleet: MakeFleet, nursery: Nursery, folder: Path, full_redis: Path
) -> None:
    async with sentinel_pair(folder, full_redis) as pair:
        fleet = make_fleet(STRICT, url=pair.url)
        await survive(fleet, nursery, [pair.fail_over])
        assert violations(await read_history(fleet.through(pair.replica.url)), without=FORGETFUL) == []


async def test_a_slot_on_its_way_costs_no_healthy_task(
    make_fleet: MakeFleet, nursery: Nursery, start_own_cluster
) -> None:
    """Half of it is elsewhere for longer than a lease."""
    masters = await asyncio.to_thread(start_own_cluster)
    fleet = make_fleet(STRICT, url="redis+cluster://" + ",".join(f"127.0.0.1:{node.port}" for node in masters))
    slot = key_slot(CellKeys(fleet.name).prefix.encode())

    async def move() -> None:
        source = next(node for node in masters if node.command("CLUSTER", "COUNTKEYSINSLOT", slot))
        target = next(node for node in masters if node is not source)
        source_id, target_id = (node.command("CLUSTER", "MYID") for node in (source, target))
        target.command("CLUSTER", "SETSLOT", slot, "IMPORTING", source_id)
        source.command("CLUSTER", "SETSLOT", slot, "MIGRATING", target_id)
        while keys := source.command("CLUSTER", "GETKEYSINSLOT", slot, 100):
            source.command("MIGRATE", "127.0.0.1", target.port, "", 0, 5000, "KEYS", *keys)
        await asyncio.sleep(AWAY_S)
        for node in (target, source, *masters):
            node.command("CLUSTER", "SETSLOT", slot, "NODE", target_id)

    await survive(fleet, nursery, [move] * 2)
