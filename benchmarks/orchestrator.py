"""The orchestrator's own figures: following, submitting, folding, and reading a large tree over HTTP.

    python -m benchmarks.orchestrator [--quick] [--json FILE]

Aims (issue 6): following 1,000 running tasks of one trace at 5 events a second each takes one connection and less than
20 % of a core; 10,000 requests are submitted in 2 s, without memory that grows with them; 200,000 events a second are
folded; a tree of 1,000 tasks is read over HTTP in 100 ms (p95). `benchmarks.cli` has the command line's figures.

CPU is of this process: the load comes from another one. The least of several runs stands for each figure, because
other work on a machine only ever adds.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import multiprocessing
import resource
import socket
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from itertools import islice
from pathlib import Path
from typing import Any

import aiohttp
import uvicorn

from envelope.budget import Usage
from envelope.events import CallState, TextDelta, ToolCallChanged, TurnFinished, TurnStarted
from envelope.lifecycle import State
from envelope.messages import TaskProgress
from orchestrator.api.app import create_app
from orchestrator.api.rates import Rates
from orchestrator.api.tokens import Role, Tokens
from orchestrator.client import Muster
from orchestrator.session.fold import Session, apply
from orchestrator.settings import Settings
from orchestrator.submit import task_request
from transport.base import Claim, Entry, Lease, Transport
from transport.embedded import embedded_redis
from transport.keyring import fresh
from transport.limits import Limits
from transport.redis import connect_redis

TASKS = 1_000
PER_TASK_PER_S = 5
FIELDS: dict[str, Any] = {"agent": "build", "pool": "build", "deadline_ms": 3_600_000, "auth_scope": ("read:**",)}
KEYRING = fresh()
# All tasks of the trace must run at once.
LIMITS = Limits(children_per_trace=10 * TASKS, lease_ms=600_000)
AIMS = {"follow_cpu_percent": 20, "submit_s": 2.0, "fold_per_s": 200_000, "tree_p95_ms": 100}


def cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


@asynccontextmanager
async def connected(url: str, fleet: str) -> AsyncIterator[Transport]:
    transport = await connect_redis(url, keyring=KEYRING, fleet=fleet, limits=LIMITS)
    try:
        yield transport
    finally:
        await transport.close()


async def running_trace(transport: Transport, count: int) -> list[Claim]:
    """One trace with so many running tasks."""
    root = task_request(**FIELDS, prompt="all")
    children = [task_request(**FIELDS, parent=root, prompt=f"part {number}") for number in range(count - 1)]
    await transport.submit([root, *children])
    claims: list[Claim] = []
    while len(claims) < count:
        claims += await transport.claim("build", "w", slots=500, wait_s=5)
    return claims


def told(claim: Claim, seq: int) -> TaskProgress:
    """What an agent says, in turns: it thinks, writes, calls a tool."""
    call: dict[str, Any] = {"call_id": f"c{seq}", "tool": "read", "title": "src/module.py"}
    kinds = (
        (TurnStarted(turn=seq // 5 + 1, model="a/model"),),
        (TextDelta(text="Now I look at the module, and then at its tests. "),),
        (ToolCallChanged(**call, state=CallState.RUNNING),),
        (ToolCallChanged(**call, state=CallState.COMPLETED),),
        (TurnFinished(turn=seq // 5 + 1, finish_reason="tool_calls", usage=Usage(input_tokens=900), cost_microusd=9),),
    )
    lease = claim.lease
    return TaskProgress(
        trace_id=lease.trace_id, task_id=lease.task_id, attempt=lease.attempt, seq=seq, at_ms=seq,
        status=State.RUNNING, events=kinds[seq % len(kinds)],
    )  # fmt: skip


# -- folding


def entries(count: int, tasks: int = TASKS) -> Iterator[Entry]:
    trace = "f" * 32
    claims = [
        Claim(Lease(f"01900000-0000-7000-8000-{number:012x}", trace, "build", "w", 1), b"", 0, 0, 0)
        for number in range(tasks)
    ]
    for number in range(count):
        yield Entry(f"{number + 1}-0", told(claims[number % tasks], number // tasks))


def fold(count: int) -> float:
    """Events folded in a second."""
    coming, took_s = entries(count), 0.0
    first = next(coming)
    session = Session.of(first.message.task_id, first.message.trace_id)
    while some := list(islice(coming, 20_000)):  # made outside of the time; a reader of a stream holds few, too
        began_s = time.process_time()
        for entry in some:
            apply(session, entry)
        took_s += time.process_time() - began_s
    return count / took_s


# -- submitting


async def submit_many(url: str, count: int) -> tuple[float, float]:
    """Seconds, and how much memory the process has more at the end, in MiB."""
    async with connected(url, "submit") as transport, temporary_muster(transport) as muster:
        await muster.submit(**FIELDS, prompt="warm")
        tasks: list[Any] = [{**FIELDS, "prompt": f"task {number}"} for number in range(count)]
        gc.collect()
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        began_s = time.perf_counter()
        await muster.submit_many(tasks)
        took_s = time.perf_counter() - began_s
        return took_s, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024


@asynccontextmanager
async def temporary_muster(transport: Transport) -> AsyncIterator[Muster]:
    with tempfile.TemporaryDirectory(prefix="muster-bench-") as folder:
        yield Muster(transport, Settings(state_dir=Path(folder)))


# -- following


def talk(url: str, fleet: str, ready: Any, go: Any, seconds: float) -> None:
    """The load, in a process of its own: every task says something five times a second."""
    asyncio.run(_talk(url, fleet, ready, go, seconds))


async def _talk(url: str, fleet: str, ready: Any, go: Any, seconds: float) -> None:
    async with connected(url, fleet) as transport:
        claims = await running_trace(transport, TASKS)
        ready.put(claims[0].lease.trace_id)
        go.wait()
        began_s, rounds = time.perf_counter(), int(seconds * PER_TASK_PER_S)
        ticks = 20  # of a round: the tasks do not all speak at once
        for seq in range(rounds):
            for tick in range(ticks):
                some = claims[tick::ticks]
                await asyncio.gather(*(transport.emit(claim.lease, told(claim, seq)) for claim in some))
                due_s = began_s + (seq + (tick + 1) / ticks) / PER_TASK_PER_S
                await asyncio.sleep(max(0.0, due_s - time.perf_counter()))
        ready.put(time.perf_counter() - began_s)


async def follow(url: str, seconds: float) -> dict[str, float]:
    """CPU of a client that follows and folds, in percent of a core, while the events come."""
    context = multiprocessing.get_context("spawn")
    ready, go = context.Queue(), context.Event()
    talker = context.Process(target=talk, args=(url, "follow", ready, go, seconds))
    talker.start()
    trace_id = await asyncio.to_thread(ready.get)
    total = TASKS * int(seconds * PER_TASK_PER_S)
    async with connected(url, "follow") as transport, temporary_muster(transport) as muster:
        [root] = await muster.tasks(trace_id=trace_id, limit=1)
        session = Session.of(root.task_id, trace_id)
        async for entry in muster.follow(trace_id, wait=False):
            apply(session, entry)
        go.set()
        seen, began_s, before_s = 0, time.perf_counter(), cpu_s()
        async for entry in muster.follow(trace_id, after=session.cursor(trace_id)):
            apply(session, entry)
            seen += 1
            if seen == total:
                break
        wall_s, used_s = time.perf_counter() - began_s, cpu_s() - before_s
    took_s = await asyncio.to_thread(ready.get)
    talker.join()
    return {
        "events": seen, "events_per_s": seen / wall_s, "cpu_percent": 100 * used_s / wall_s,
        "cpu_us_per_event": 1e6 * used_s / seen, "talker_s": took_s,
    }  # fmt: skip


# -- reading over HTTP


async def read_tree(url: str, reads: int) -> dict[str, float]:
    """Reads of a tree of 1,000 tasks in which 20 tasks say something between two reads."""
    async with connected(url, "tree") as transport, temporary_muster(transport) as muster:
        claims = await running_trace(transport, TASKS)
        for seq in range(5):
            await asyncio.gather(*(transport.emit(claim.lease, told(claim, seq)) for claim in claims))
        tokens = Tokens(transport.registry)
        headers = {"Authorization": f"Bearer {await tokens.create('bench', Role.VIEWER, 'default')}"}
        app = create_app(muster, Rates(per_s=1e6, burst=1e6))
        with socket.socket() as listening:
            listening.bind(("127.0.0.1", 0))
            server = uvicorn.Server(uvicorn.Config(app, log_config=None, lifespan="off"))
            serving = asyncio.create_task(server.serve(sockets=[listening]))
            address = f"http://127.0.0.1:{listening.getsockname()[1]}/v1/tasks/{claims[0].lease.task_id}/tree"
            async with aiohttp.ClientSession() as session:
                times_ms, body = list[float](), b""
                for number in range(reads):
                    some = claims[number % 50 :: 50]
                    await asyncio.gather(*(transport.emit(claim.lease, told(claim, 5 + number)) for claim in some))
                    began_s = time.perf_counter()
                    async with session.get(address, headers=headers) as response:
                        body = await response.read()
                        assert response.status == 200, body
                    times_ms.append((time.perf_counter() - began_s) * 1000)
            server.should_exit = True
            await serving
    assert len(json.loads(body)["tasks"]) == TASKS
    first, *others = times_ms
    return {
        "first_ms": first, "p50_ms": statistics.median(others), "p95_ms": statistics.quantiles(others, n=20)[18],
        "body_kb": len(body) / 1000,
    }  # fmt: skip


async def measured(url: str, *, quick: bool) -> dict[str, Any]:
    folded = max(fold(200_000 if quick else 1_000_000) for _ in range(1 if quick else 3))
    print(f"fold        {folded:,.0f} events a second", flush=True)
    submits = [await submit_many(url, 10_000) for _ in range(1 if quick else 3)]
    print("submit     ", *(f"{took_s:.2f} s, {more:.0f} MiB more;" for took_s, more in submits), flush=True)
    followed = await follow(url, 4 if quick else 20)
    print("follow     ", *(f"{name} {value:,.1f}" for name, value in followed.items()), flush=True)
    tree = await read_tree(url, 30 if quick else 200)
    print("tree       ", *(f"{name} {value:,.1f}" for name, value in tree.items()), flush=True)
    return {
        "fold_per_s": folded,
        "submit_s": min(took_s for took_s, _ in submits),
        "submit_mib": [round(more) for _, more in submits],
        "follow": followed,
        "tree": tree,
    }


async def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    options.add_argument("--quick", action="store_true")
    options.add_argument("--json", type=Path)
    asked = options.parse_args()
    with tempfile.TemporaryDirectory(prefix="muster-bench-") as folder:
        async with embedded_redis(Path(folder)) as server:
            figures = await measured(server.url, quick=asked.quick)
    told_figures = json.dumps({"benchmark": "orchestrator", "aims": AIMS, "figures": figures}, default=float)
    print(told_figures)
    if asked.json:
        asked.json.write_text(told_figures)


if __name__ == "__main__":
    asyncio.run(main())
