"""R7: whatever the network does to one worker, no task waits for long, and the worker comes back by itself."""

from __future__ import annotations

import asyncio

import pytest
from lab.checks import violations
from lab.figures import report
from lab.fleet import LEASE_MS, Fleet, MakeFleet
from lab.job import Job, request
from lab.processes import Nursery, Program
from lab.proxy import WEATHERS, fair, proxy_to, slow
from lab.reader import read_history
from lab.server import Server
from lab.standstill import Standstill
from lab.waiting import results, running

from envelope.ids import new_trace_id
from transport.base import Transport
from transport.redis.client import BLOCK_MARGIN_S, MAX_BLOCK_S

pytestmark = [pytest.mark.chaos, pytest.mark.redis]

# Three leases: whoever cannot be heard for so long has lost its tasks.
BAD_FOR_S, EVERY_S = 6.0, 0.1
SLOTS = 4
# Weather in which the far worker rightly goes on, and its tasks take as long as they take; in all others nobody hears
# from it, and the weather clears only when the near one has done all of its tasks.
WORKS_ON = {slow.__name__}
# A task waits for a worker that looks again (block), or for a lost one (lease); and a little for this machine.
WAIT_AIM_MS = MAX_BLOCK_S * 1000 + LEASE_MS + 3_000
# Its blocked read, on a connection that the network forgot, is given up after this long.
BACK_AIM_MS = (MAX_BLOCK_S + BLOCK_MARGIN_S) * 1000 + 5_000


async def test_bad_weather_wedges_nobody(make_fleet: MakeFleet, server: Server, nursery: Nursery) -> None:
    """One fleet per weather, all at once: a worker behind the proxy, and one with a way of its own."""
    fleets = {name: make_fleet() for name in WEATHERS if name != fair.__name__}
    async with asyncio.TaskGroup() as runs:
        for name, fleet in fleets.items():
            runs.create_task(one_weather(name, fleet, server, nursery))


async def one_weather(name: str, fleet: Fleet, server: Server, nursery: Nursery) -> None:
    transport = await fleet.connect()
    async with proxy_to(server.port) as proxy:
        far = await nursery.start(
            "worker", f"far-{name}", fleet.through(server.url_of("worker", port=proxy.port)), slots=SLOTS
        )
        near = await nursery.start("worker", f"near-{name}", fleet, slots=SLOTS)
        assert await far.is_ready()
        assert await near.is_ready()
        task_ids = await fill_both(transport)
        with Standstill() as still:
            proxy.weather = WEATHERS[name]
            task_ids += await submit_for(transport, BAD_FOR_S)
            if name in WORKS_ON:
                proxy.weather = fair
            await results(transport, task_ids)
            proxy.weather = fair
            back_ms = await back_after_ms(transport, near)
        await far.stop()

    records = [await transport.record(task_id) for task_id in task_ids]
    took_ms = [record.finished_at_ms - record.accepted_at_ms for record in records if record.finished_at_ms]
    lost = sum(record.lost_leases for record in records)
    report("R7", weather=name, tasks=len(records), lost_leases=lost, longest_ms=max(took_ms), far_back_ms=back_ms)
    await transport.close()
    assert max(took_ms) <= WAIT_AIM_MS + still.ms
    assert back_ms <= BACK_AIM_MS + still.ms
    assert violations(await read_history(fleet)) == []


async def fill_both(transport: Transport) -> list[str]:
    """As many longer tasks as both have slots: returns when all run."""
    trace_id = new_trace_id()
    requests = [request(Job(turns_ms=(150,) * 10), trace_id=trace_id) for _ in range(2 * SLOTS)]
    await transport.submit(requests)
    await running(transport, trace_id, 2 * SLOTS)
    return [request.task_id for request in requests]


async def submit_for(transport: Transport, for_s: float) -> list[str]:
    """One short task after the other; their ids."""
    task_ids: list[str] = []
    loop = asyncio.get_running_loop()
    until_s = loop.time() + for_s
    while loop.time() < until_s:
        (handle,) = await transport.submit([request(Job(turns_ms=(100, 100)))])
        task_ids.append(handle.task_id)
        await asyncio.sleep(EVERY_S)
    return task_ids


async def back_after_ms(transport: Transport, near: Program) -> int:
    """How long after the weather cleared the far worker has done a task, with nobody else to do it."""
    await near.stop()
    cleared_at_ms = await transport.now_ms()
    (handle,) = await transport.submit([request(Job(turns_ms=(1,)))])
    await results(transport, [handle.task_id])
    return await transport.now_ms() - cleared_at_ms
