"""R8, R6, R22: a Redis that forgets, refuses, or is full; workers stay whole, and every task ends."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from lab.checks import FORGETFUL, trimmed, violations
from lab.crew import Crew
from lab.figures import report
from lab.fleet import LEASE_MS, Fleet, MakeFleet
from lab.job import Job, request
from lab.processes import Nursery, Program
from lab.reader import read_history
from lab.server import Server, redis_server
from lab.users import lab_users
from lab.waiting import results, running

from envelope.ids import new_trace_id
from transport.base import Transport
from transport.errors import QueueFull
from transport.redis.pressure import LOOK_EVERY_S

pytestmark = [pytest.mark.chaos, pytest.mark.redis]

# The outbox looks for what was forgotten every 30 s where there is no other news, every 10 s where there is none.
HEALED_WITHIN_S = 60
TROUBLE_S = 1.5 * LEASE_MS / 1000
BALLAST_BYTES, FULL_SHARE = 64 * 1024 * 1024, 0.82
USER = lab_users().name("worker")


async def flush_scripts(server: Server) -> None:
    server.call("SCRIPT", "FLUSH")


async def revoke_the_user(server: Server) -> None:
    server.call("ACL", "SETUSER", USER, "off")
    server.call("CLIENT", "KILL", "USER", USER)
    await asyncio.sleep(TROUBLE_S)
    server.call("ACL", "SETUSER", USER, "on")


async def let_nobody_in(server: Server) -> None:
    """Cut all connections, and take no new ones."""
    server.call("CONFIG", "SET", "maxclients", 1)
    server.call("CLIENT", "KILL", "USER", USER)
    await asyncio.sleep(TROUBLE_S)
    server.call("CONFIG", "SET", "maxclients", 10_000)


async def fill_the_memory(server: Server) -> None:
    """No event gets through, nor a submission: those of ended traces are dropped to make room."""
    server.call("CONFIG", "SET", "maxmemory", 1)
    await asyncio.sleep(TROUBLE_S)
    server.call("CONFIG", "SET", "maxmemory", 0)


TROUBLES: dict[str, Callable[[Server], Awaitable[None]]] = {
    trouble.__name__: trouble for trouble in (flush_scripts, revoke_the_user, let_nobody_in, fill_the_memory)
}


async def test_workers_outlive_a_server_in_trouble(make_fleet: MakeFleet, nursery: Nursery, folder: Path) -> None:
    """A server of its own for each trouble, all at once."""
    async with asyncio.TaskGroup() as runs:
        for name in TROUBLES:
            runs.create_task(one_trouble(name, make_fleet, nursery, folder))


async def one_trouble(name: str, make_fleet: MakeFleet, nursery: Nursery, folder: Path) -> None:
    async with redis_server(folder / name) as server:
        fleet = make_fleet(url=server.url)
        async with Crew(nursery, fleet, 2, name=f"w-{name}-") as crew:
            await crew.whole()
            submitter = await submit_over(nursery, fleet, name, count=60, over_s=6.0)
            await asyncio.sleep(1.0)
            await TROUBLES[name](server)
            ended_ns = time.monotonic_ns()
            async with asyncio.timeout(HEALED_WITHIN_S):
                await submitter.ended.wait()
            lost_workers = crew.started - 2
        history = await read_history(fleet)
    done = (op.ended_ns or 0 for op in history.of("claim", "emit") if op.ok)
    back_ns = min((at_ns for at_ns in done if at_ns > ended_ns), default=ended_ns)
    report("R8", trouble=name, tasks=len(history.records), workers_lost=lost_workers,
           back_after_ms=(back_ns - ended_ns) // 1_000_000)  # fmt: skip
    assert lost_workers == 0
    assert violations(history, without=[trimmed] if name == fill_the_memory.__name__ else []) == []


async def test_what_a_server_forgot_is_submitted_again(fleet: Fleet, nursery: Nursery, server: Server) -> None:
    """FLUSHALL in the midst of work."""
    async with Crew(nursery, fleet, 2):
        submitter = await submit_over(nursery, fleet, "forgotten", count=60, over_s=2.0)
        await asyncio.sleep(2.0)

        server.call("FLUSHALL")
        flushed_ns = time.monotonic_ns()
        async with asyncio.timeout(HEALED_WITHIN_S):
            await submitter.ended.wait()
        took_s = (time.monotonic_ns() - flushed_ns) / 1e9

    history = await read_history(fleet)
    report("R8", trouble="flushall", tasks=len(history.records), all_ended_after_s=round(took_s, 1))
    assert violations(history, without=FORGETFUL) == []


async def test_a_worker_whose_start_was_forgotten_works_only_once(
    fleet: Fleet, transport: Transport, nursery: Nursery, server: Server
) -> None:
    """As after a failover to a replica that lags: the task is in line again, while the worker still works on it."""
    trace_id = new_trace_id()
    tasks = [request(Job(turns_ms=(200,) * 10, cost_microusd=1), trace_id=trace_id) for _ in range(4)]
    await transport.submit(tasks)
    server.remember()
    worker = await nursery.start("worker", "w", fleet, slots=8)
    await running(transport, trace_id, 4)

    await server.kill()
    server.roll_back()
    await server.start()
    ended = await results(transport, [task.task_id for task in tasks])
    await worker.stop()

    history = await read_history(fleet)
    report("R6", forgot="starts", tasks=len(ended))
    assert violations(history, without=FORGETFUL) == []


async def test_a_server_short_of_memory_ends_what_it_has_and_takes_nothing_new(
    fleet: Fleet, transport: Transport, nursery: Nursery, server: Server
) -> None:
    async with Crew(nursery, fleet, 2):
        tasks = [request(Job(turns_ms=(50,) * 4)) for _ in range(100)]
        await transport.submit(tasks)
        # what else a server holds: results and events of a week
        server.call("SETRANGE", "ballast", BALLAST_BYTES, "x")
        used_bytes = int(server.call("INFO", "memory")["used_memory"])
        server.call("CONFIG", "SET", "maxmemory", int(used_bytes / FULL_SHARE))
        async with asyncio.timeout(HEALED_WITHIN_S):
            refused = await refusal(transport)

        async with asyncio.timeout(HEALED_WITHIN_S):
            ended = await results(transport, [task.task_id for task in tasks])
        server.call("CONFIG", "SET", "maxmemory", 0)
        async with asyncio.timeout(HEALED_WITHIN_S):
            await acceptance(transport)

    report("R22", ended=len(ended), retry_after_s=refused.retry_after_s)
    assert refused.retry_after_s > 0
    assert violations(await read_history(fleet), without=[trimmed]) == []


async def refusal(transport: Transport) -> QueueFull:
    """The first one: the transport looks at the server's memory once a second."""
    while True:
        try:
            await transport.submit([request(Job())])
        except QueueFull as error:
            return error
        await asyncio.sleep(LOOK_EVERY_S / 10)


async def acceptance(transport: Transport) -> None:
    while True:
        try:
            await transport.submit([request(Job())])
        except QueueFull:
            await asyncio.sleep(LOOK_EVERY_S / 10)
        else:
            return


async def submit_over(nursery: Nursery, fleet: Fleet, share: str, *, count: int, over_s: float) -> Program:
    return await nursery.start(
        "submitter", f"s-{share}", fleet, share=share, seed=1, count=count, began_ns=time.monotonic_ns(), over_s=over_s
    )
