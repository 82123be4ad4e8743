"""How fast the task path is: drain, fan-out, idle pick-up, and arq beside it on the same server.

    python -m benchmarks.queue [--quick] [--no-peer]

(As a module: run as a script, this file's folder would hide the standard library's `queue`.)
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from envelope.events import TurnStarted
from envelope.ids import new_task_id, new_trace_id
from envelope.lifecycle import State
from envelope.messages import Metrics, Output, TaskInput, TaskProgress, TaskRequest, TaskResult
from transport import keyring
from transport.base import Transport
from transport.consumer import Consumer, ConsumerEvent, Delivery, What
from transport.embedded import embedded_redis
from transport.redis import connect_redis

POOL = "general"
# What the targets were set for: numbers.md measures with payloads of about 600 bytes.
PROMPT = "x" * 300


# -- the worker process


async def noop(delivery: Delivery, transport: Transport, work_s: float) -> TaskResult:
    """Three events: the queue's `running`, one progress, the result."""
    started_ns = time.monotonic_ns()
    lease = delivery.claim.lease
    ids: dict[str, Any] = {"trace_id": lease.trace_id, "task_id": lease.task_id, "attempt": lease.attempt}
    progress = TaskProgress(**ids, seq=0, at_ms=0, status=State.RUNNING, events=(TurnStarted(turn=1, model="none"),))
    await transport.emit(lease, progress)
    if work_s:
        await asyncio.sleep(work_s)
    output = Output(text="done", structured={"started_ns": started_ns})
    return TaskResult(**ids, status=State.COMPLETED, output=output, metrics=Metrics(turns=1))


async def serve(url: str, fleet: str, keys: Path, slots: int, count: int, work_s: float, worker: str) -> None:
    """Run one consumer until it finished `count` tasks; print when it began to serve, and how long it took."""
    transport = await connect_redis(url, keyring=keyring.load_or_create(keys), fleet=fleet)
    stop, finished = asyncio.Event(), 0

    def count_finished(event: ConsumerEvent) -> None:
        nonlocal finished
        finished += event.what is What.FINISHED
        if finished == count:
            stop.set()

    consumer = Consumer(
        transport, pool=POOL, worker=worker, slots=slots,
        handle=lambda delivery: noop(delivery, transport, work_s), on_event=count_finished,
    )  # fmt: skip
    print(json.dumps({"ready": True}), flush=True)
    began, cpu = time.perf_counter(), time.process_time()
    await consumer.run(stop)
    took_s = time.perf_counter() - began
    print(json.dumps({"took_s": took_s, "cpu_us_per_task": (time.process_time() - cpu) / max(1, finished) * 1e6}))
    await transport.close()


class Worker:
    """A worker process of its own."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    @classmethod
    async def start(cls, *arguments: object) -> Worker:
        command = [sys.executable, "-m", "benchmarks.queue", "--role", *map(str, arguments)]
        worker = cls(await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE))
        await worker.line()
        return worker

    async def line(self) -> dict[str, Any]:
        assert self._process.stdout
        return json.loads(await self._process.stdout.readline())

    async def end(self) -> None:
        if self._process.returncode is None:
            self._process.kill()
        await self._process.wait()


# -- the measurements


class Bench:
    """One fresh server: no measurement pays for what another has left behind (memory, a rewrite of its file)."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url = url
        self.keys = folder / "keyring.json"
        self._names = 0

    async def fleet(self) -> tuple[Transport, str]:
        self._names += 1
        name = f"bench{self._names}"
        return await connect_redis(self.url, keyring=keyring.load_or_create(self.keys), fleet=name), name

    async def worker(self, fleet: str, *, slots: int, count: int, work_s: float = 0.0, name: str = "w1") -> Worker:
        return await Worker.start("serve", self.url, fleet, self.keys, slots, count, work_s, name)

    async def drain(self, count: int, traces: int) -> dict[str, float]:
        """Prefilled queue, one worker process with 100 slots."""
        transport, fleet = await self.fleet()
        trace_ids = [new_trace_id() for _ in range(traces)]
        requests = [request(trace_ids[n % traces]) for n in range(count)]
        began = time.perf_counter()
        await transport.submit(requests)
        submit_s = time.perf_counter() - began
        worker = await self.worker(fleet, slots=100, count=count)
        outcome = await worker.line()
        await worker.end()
        record = await transport.record(requests[-1].task_id)
        assert record.state is State.COMPLETED, record
        await transport.close()
        return {
            "tasks_per_s": count / outcome["took_s"],
            "cpu_us_per_task": outcome["cpu_us_per_task"],
            "submit_per_s": count / submit_s,
        }

    async def fan_out(self, traces: int) -> dict[str, float]:
        """1,000 tasks of 200 ms over two worker processes of 500 slots: until the last one runs, and has ended."""
        transport, fleet = await self.fleet()
        workers = [await self.worker(fleet, slots=500, count=500, work_s=0.2, name=f"w{n}") for n in range(2)]
        trace_ids = [new_trace_id() for _ in range(traces)]
        requests = [request(trace_ids[n % traces]) for n in range(1000)]
        await asyncio.sleep(0.5)  # both have come to their doorbell
        began_ns = time.monotonic_ns()
        for start in range(0, 1000, 100):  # as a client does that wants the first to run while the last is sent
            await transport.submit(requests[start : start + 100])
        results = [result async for result in transport.results([request.task_id for request in requests])]
        ended_ns = time.monotonic_ns()
        started_ns = [result.output.structured["started_ns"] for result in results]
        for worker in workers:
            await worker.end()
        await transport.close()
        return {
            "all_running_ms": (max(started_ns) - began_ns) / 1e6,
            "all_results_read_ms": (ended_ns - began_ns) / 1e6,
        }

    async def pick_up(self, samples: int) -> dict[str, float]:
        """An idle worker: from just before the submit to the first line of the handler."""
        transport, fleet = await self.fleet()
        worker = await self.worker(fleet, slots=4, count=samples)
        waits_ms: list[float] = []
        for _ in range(samples):
            await asyncio.sleep(0.02)
            task = request(new_trace_id())
            began_ns = time.monotonic_ns()
            await transport.submit([task])
            result = await anext(transport.results([task.task_id]))
            waits_ms.append((result.output.structured["started_ns"] - began_ns) / 1e6)
        await worker.end()
        await transport.close()
        cuts = statistics.quantiles(waits_ms, n=100)
        return {"p50_ms": statistics.median(waits_ms), "p99_ms": cuts[98]}

    async def arq_drain(self, count: int) -> dict[str, float]:
        """The peer: arq's own worker in a process, 100 jobs at once, its results kept as by default."""
        from arq import create_pool

        pool = await create_pool(arq_settings(self.url))
        await asyncio.gather(*(pool.enqueue_job("arq_noop", PROMPT) for _ in range(count)))
        worker = await Worker.start("arq", self.url, count)
        outcome = await worker.line()
        await worker.end()
        await pool.aclose()
        return {"tasks_per_s": count / outcome["took_s"]}


def request(trace_id: str) -> TaskRequest:
    return TaskRequest(
        task_id=new_task_id(), trace_id=trace_id, sender="bench", recipient=POOL, agent="noop",
        input=TaskInput(prompt=PROMPT), auth_scope=("read:**",), deadline_ms=3_600_000,
        created_at_ms=time.time_ns() // 1_000_000,
    )  # fmt: skip


# -- arq


def arq_settings(url: str) -> Any:
    from arq.connections import RedisSettings

    return RedisSettings(unix_socket_path=url.removeprefix("unix://"))


async def arq_noop(ctx: dict[Any, Any], prompt: str) -> str:
    return "done"


async def serve_arq(url: str, count: int) -> None:
    from arq import Worker as ArqWorker
    from arq.worker import func

    worker = ArqWorker(
        [func(arq_noop, name="arq_noop")], redis_settings=arq_settings(url), max_jobs=100, poll_delay=0.01,
        burst=True, max_burst_jobs=count, handle_signals=False,
    )  # fmt: skip
    print(json.dumps({"ready": True}), flush=True)
    began = time.perf_counter()
    await worker.main()
    print(json.dumps({"took_s": time.perf_counter() - began}), flush=True)
    await worker.close()


# -- the report


async def median_of(runs: int, measure: Callable[[Bench], Awaitable[dict[str, float]]]) -> dict[str, float]:
    rows = [await on_fresh_server(measure) for _ in range(runs)]
    return {name: round(statistics.median(row[name] for row in rows), 2) for name in rows[0]}


async def on_fresh_server(measure: Callable[[Bench], Awaitable[dict[str, float]]]) -> dict[str, float]:
    with tempfile.TemporaryDirectory(prefix="muster-bench-") as folder:
        async with embedded_redis(Path(folder)) as server:
            return await measure(Bench(server.url, Path(folder)))


async def server_name() -> str:
    with tempfile.TemporaryDirectory(prefix="muster-bench-") as folder:
        async with embedded_redis(Path(folder)) as server:
            return f"{server.program.name} {server.version}, append-only file every second"


async def measure_all(*, quick: bool, peer: bool) -> dict[str, Any]:
    runs, count = (1, 5_000) if quick else (3, 20_000)
    report: dict[str, Any] = {
        "server": await server_name(),
        "python": sys.version.split()[0],
        "runs": runs,
        f"drain of {count} over 100 traces": await median_of(runs, lambda bench: bench.drain(count, 100)),
        f"drain of {count} in one trace": await median_of(runs, lambda bench: bench.drain(count, 1)),
        "1,000 x 200 ms, 100 traces": await median_of(runs, lambda bench: bench.fan_out(100)),
        "1,000 x 200 ms, 1,000 traces": await median_of(runs, lambda bench: bench.fan_out(1000)),
        "idle pick-up": await median_of(runs, lambda bench: bench.pick_up(50 if quick else 200)),
    }
    if peer:
        report["arq, drain of 3000, results only"] = await median_of(runs, lambda bench: bench.arq_drain(3000))
    return report


def show(report: dict[str, Any]) -> None:
    for name, value in report.items():
        if isinstance(value, dict):
            figures = "  ".join(f"{key} {figure:,.2f}" for key, figure in value.items())
            print(f"{name:<38} {figures}")
        else:
            print(f"{name:<38} {value}")
    print(json.dumps(report))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one short run of each")
    parser.add_argument("--no-peer", action="store_true", help="leave arq out")
    parser.add_argument("--role", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args()
    match options.role:
        case ["serve", url, fleet, keys, slots, count, work_s, worker]:
            asyncio.run(serve(url, fleet, Path(keys), int(slots), int(count), float(work_s), worker))
        case ["arq", url, count]:
            asyncio.run(serve_arq(url, int(count)))
        case _:
            show(asyncio.run(measure_all(quick=options.quick, peer=not options.no_peer)))


if __name__ == "__main__":
    main()
