"""How fast the task path is, and four peers beside it, each on a fresh server of the same kind in the same run.

    python -m benchmarks.queue [--quick] [--no-peers] [--json FILE]

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
from collections.abc import Awaitable, Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from envelope.ids import new_task_id, new_trace_id
from envelope.lifecycle import State
from envelope.messages import TaskInput, TaskRequest
from transport import keyring
from transport.base import Transport
from transport.bounds import MAX_REQUESTS
from transport.embedded import Server, embedded_redis
from transport.redis import connect_redis

from .peers import PROMPT
from .queue_worker import POOL

PEERS = ("arq", "saq", "dramatiq", "celery")
IDLE_S = 20.0
# A drain is full: two batches of writes are under way while the next tasks are claimed. The peers get as many.
SLOTS = 200

Row = dict[str, float]


class Process:
    """A worker in a process of its own; it has said that it is ready when this is made."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    @classmethod
    async def start(cls, module: str, *arguments: object, environment: Mapping[str, str] | None = None) -> Process:
        process = cls(
            await asyncio.create_subprocess_exec(
                sys.executable, "-m", module, *map(str, arguments),
                stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, env=environment,
            )
        )  # fmt: skip
        await process.line()
        return process

    async def line(self) -> Row:
        assert self._process.stdout
        return json.loads(await self._process.stdout.readline())

    def go(self) -> None:
        assert self._process.stdin
        self._process.stdin.write(b"\n")

    async def finish(self) -> None:
        """Let it clear up behind itself."""
        assert self._process.stdin
        self._process.stdin.close()
        await self._process.wait()

    async def end(self) -> None:
        if self._process.returncode is None:
            self._process.kill()
        await self._process.wait()


class Bench:
    """One fresh server: no measurement pays for what another has left behind (memory, a rewrite of its file)."""

    def __init__(self, server: Server, folder: Path) -> None:
        self.server = server
        self.keys = folder / "keyring.json"

    async def fleet(self) -> Transport:
        return await connect_redis(self.server.url, keyring=keyring.load_or_create(self.keys), fleet="bench")

    async def worker(self, *, slots: int, count: int, work_s: float = 0.0, name: str = "w1") -> Process:
        return await Process.start(
            "benchmarks.queue_worker", self.server.url, "bench", self.keys, slots, count, work_s, name
        )

    async def drain(self, count: int, traces: int, workers: int) -> Row:
        """A prefilled queue, workers of SLOTS; each one's rate over nine tenths of its equal share, added up."""
        transport = await self.fleet()
        trace_ids = [new_trace_id() for _ in range(traces)]
        requests = [request(trace_ids[n % traces]) for n in range(count)]
        began = time.perf_counter()
        for start in range(0, count, MAX_REQUESTS):
            await transport.submit(requests[start : start + MAX_REQUESTS])
        submit_s = time.perf_counter() - began
        redis_s = self._redis_cpu_s()
        share = count // workers * 9 // 10
        processes = [await self.worker(slots=SLOTS, count=share, name=f"w{n}") for n in range(workers)]
        for process in processes:
            process.go()
        rows = [await process.line() for process in processes]
        per_s = sum(row["tasks"] / (row["ended_ns"] - row["began_ns"]) * 1e9 for row in rows)
        redis_us = (self._redis_cpu_s() - redis_s) / sum(row["tasks"] for row in rows) * 1e6
        for process in processes:
            await process.end()
        record = await transport.record(requests[0].task_id)
        assert record.state is State.COMPLETED, record
        await transport.close()
        return {
            "tasks_per_s": per_s,
            "worker_cpu_us": statistics.mean(row["cpu_us_per_task"] for row in rows),
            "redis_cpu_us": redis_us,
            "submit_per_s": count / submit_s,
        }

    def _redis_cpu_s(self) -> float:
        return cpu_s(self.server.pid)

    async def fan_out(self, traces: int) -> Row:
        """1,000 tasks of 200 ms over two workers of 500 slots: until the last one runs, and has ended."""
        transport = await self.fleet()
        workers = [await self.worker(slots=500, count=500, work_s=0.2, name=f"w{n}") for n in range(2)]
        trace_ids = [new_trace_id() for _ in range(traces)]
        requests = [request(trace_ids[n % traces]) for n in range(1000)]
        for worker in workers:
            worker.go()
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

    async def pick_up(self, samples: int) -> Row:
        """An idle worker: from just before the submit to the first line of the handler."""
        transport = await self.fleet()
        worker = await self.worker(slots=4, count=samples + 1)
        worker.go()
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
        return _percentiles(waits_ms)

    async def ping(self, samples: int) -> Row:
        """What the machine itself takes for one round trip between two processes that sleep in between."""
        import redis.asyncio

        waits_ms: list[float] = []
        async with redis.asyncio.Redis(unix_socket_path=self.server.url.removeprefix("unix://")) as client:
            for _ in range(samples):
                await asyncio.sleep(0.02)
                began_ns = time.monotonic_ns()
                await client.ping()
                waits_ms.append((time.monotonic_ns() - began_ns) / 1e6)
        return _percentiles(waits_ms)

    async def idle(self, workers: int) -> Row:
        """What workers without work send, per second and worker."""
        transport = await self.fleet()
        processes = [await self.worker(slots=10, count=1, name=f"w{n}") for n in range(workers)]
        for process in processes:
            process.go()
        await asyncio.sleep(2)  # all have come to their doorbell
        counted = [await self._commands(transport)]
        await asyncio.sleep(IDLE_S)
        counted.append(await self._commands(transport))
        for process in processes:
            await process.end()
        await transport.close()
        sent, run = ((counted[1][n] - counted[0][n]) / workers / IDLE_S for n in (0, 1))
        return {"sent_per_s": sent, "run_by_scripts_too_per_s": run}

    async def _commands(self, transport: Transport) -> tuple[int, int]:
        """Commands that clients sent, and all that the server ran for them."""
        import redis.asyncio

        async with redis.asyncio.Redis(unix_socket_path=self.server.url.removeprefix("unix://")) as client:
            stats: dict[str, dict[str, int]] = await client.info("commandstats")
        calls = {name.removeprefix("cmdstat_"): int(row["calls"]) for name, row in stats.items()}
        ours = {"info", "config|get", "client|setinfo", "hello"}  # what counting costs
        # workers send scripts, and block on lists; all else runs inside of scripts
        return calls.get("evalsha", 0) + calls.get("blpop", 0), sum(calls[name] for name in calls if name not in ours)

    async def backlog(self, count: int) -> Row:
        """Claims of 10 tasks with 200 in line, and with `count` more."""
        transport = await self.fleet()
        row: Row = {}
        for name, fill in (("empty_ms", 200), ("full_ms", count)):
            trace_ids = [new_trace_id() for _ in range(100)]
            for start in range(0, fill, MAX_REQUESTS):
                end = min(start + MAX_REQUESTS, fill)
                await transport.submit([request(trace_ids[n % 100]) for n in range(start, end)])
            times_ms: list[float] = []
            for _ in range(20):
                began = time.perf_counter()
                claims = await transport.claim(POOL, "w", slots=10, wait_s=0)
                times_ms.append((time.perf_counter() - began) * 1000)
                assert len(claims) == 10
            row[name] = statistics.median(times_ms)
        await transport.close()
        return {**row, "full_to_empty": row["full_ms"] / row["empty_ms"]}

    async def peer(self, name: str, count: int) -> Row:
        """The same drain by a peer: no fairness, no events, no fencing, no signatures."""
        await import_module(f"benchmarks.peers.with_{name}").fill(self.server.url, count)
        redis_s = self._redis_cpu_s()
        worker = await Process.start("benchmarks.peers", f"with_{name}", self.server.url, count)
        row = await worker.line()
        redis_us = (self._redis_cpu_s() - redis_s) / count * 1e6
        await worker.end()
        return {
            "tasks_per_s": count / row["took_s"], "worker_cpu_us": row["cpu_us_per_task"], "redis_cpu_us": redis_us
        }  # fmt: skip


def cpu_s(pid: int) -> float:
    """What all threads of another process have used so far, to the scheduler's nanosecond."""
    return sum(int(each.read_text().split()[0]) for each in Path(f"/proc/{pid}/task").glob("*/schedstat")) / 1e9


def _percentiles(waits_ms: list[float]) -> Row:
    return {"p50_ms": statistics.median(waits_ms), "p99_ms": statistics.quantiles(waits_ms, n=100)[98]}


def request(trace_id: str) -> TaskRequest:
    return TaskRequest(
        task_id=new_task_id(), trace_id=trace_id, sender="bench", recipient=POOL, agent="noop",
        input=TaskInput(prompt=PROMPT), auth_scope=("read:**",), deadline_ms=3_600_000,
        created_at_ms=time.time_ns() // 1_000_000,
    )  # fmt: skip


# -- the report

Measure = Callable[[Bench], Awaitable[Row]]


async def median_of(runs: int, measure: Measure) -> Row:
    rows = [await on_fresh_server(measure) for _ in range(runs)]
    return {name: round(statistics.median(row[name] for row in rows), 2) for name in rows[0]}


async def on_fresh_server(measure: Measure) -> Row:
    with tempfile.TemporaryDirectory(prefix="muster-bench-") as folder:
        async with embedded_redis(Path(folder)) as server:
            return await measure(Bench(server, Path(folder)))


async def server_name() -> str:
    with tempfile.TemporaryDirectory(prefix="muster-bench-") as folder:
        async with embedded_redis(Path(folder)) as server:
            return f"{server.program.name} {server.version}, append-only file every second"


def measurements(*, quick: bool, peers: bool) -> dict[str, tuple[int, Measure]]:
    runs, count, waiting = (1, 5_000, 20_000) if quick else (3, 20_000, 100_000)
    samples = 50 if quick else 400
    few = 1_000 if quick else 3_000  # peers are slower, and this is enough to be steady
    ours: dict[str, tuple[int, Measure]] = {
        f"drain of {count}, 100 traces, 1 worker": (runs, lambda bench: bench.drain(count, 100, 1)),
        f"drain of {count}, 100 traces, 2 workers": (runs, lambda bench: bench.drain(count, 100, 2)),
        f"drain of {count}, one trace, 1 worker": (runs, lambda bench: bench.drain(count, 1, 1)),
        f"drain of {count}, one trace, 2 workers": (runs, lambda bench: bench.drain(count, 1, 2)),
        "1,000 x 200 ms over 1,000 slots, one trace": (runs, lambda bench: bench.fan_out(1)),
        "1,000 x 200 ms over 1,000 slots, 100 traces": (runs, lambda bench: bench.fan_out(100)),
        "idle pick-up": (runs, lambda bench: bench.pick_up(samples)),
        "idle PING, one round trip": (runs, lambda bench: bench.ping(samples)),
        "commands of an idle worker": (1, lambda bench: bench.idle(10)),
        f"claim beside {waiting} queued": (1, lambda bench: bench.backlog(waiting)),
    }
    beside: dict[str, tuple[int, Measure]] = {
        f"{name}, drain of {few}, results only": (runs, lambda bench, name=name: bench.peer(name, few))
        for name in (PEERS if peers else ())
    }
    return {**ours, **beside}


async def measure_all(*, quick: bool, peers: bool) -> dict[str, Any]:
    report: dict[str, Any] = {"server": await server_name(), "python": sys.version.split()[0]}
    for name, (runs, measure) in measurements(quick=quick, peers=peers).items():
        report[name] = await median_of(runs, measure)
        show(name, report[name])
    return report


def show(name: str, row: Row) -> None:
    print(f"{name:<46} " + "  ".join(f"{key} {figure:,.2f}" for key, figure in row.items()), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one short run of each")
    parser.add_argument("--no-peers", action="store_true", help="leave the peers out")
    parser.add_argument("--json", type=Path, help="write the figures there, too")
    options = parser.parse_args()
    report = asyncio.run(measure_all(quick=options.quick, peers=not options.no_peers))
    print(report["server"])
    if options.json:
        options.json.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
