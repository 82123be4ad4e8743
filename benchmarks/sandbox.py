"""A tool call in a sandbox, beside `docker exec` on the same machine in the same run.

Aims: one caller p50 under 2 ms; 20 sandboxes together over 1,000 calls/s. A call is `sh -c true`, which is what every
peer is asked for too; `stat` shows the price of the channel alone.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import statistics
import tempfile
import time
import uuid
from collections.abc import Awaitable, Callable
from pathlib import Path

from sandbox.base import Command, Limits, SandboxSpec
from sandbox.driver import DockerDriver
from sandbox.image import DEFAULT_IMAGE
from sandbox.opened import OpenSandbox

CALLS = 1000
PEER_CALLS = 40
SANDBOXES = 20
CALLS_EACH = 200
TRUE = Command("true")
SPEC = SandboxSpec(DEFAULT_IMAGE, limits=Limits(memory_bytes=256 * 1024 * 1024))

Call = Callable[[], Awaitable[object]]


async def latencies_ms(call: Call, count: int) -> dict[str, float]:
    await call()  # the first pays for imports and caches
    times: list[float] = []
    for _ in range(count):
        began = time.perf_counter()
        await call()
        times.append((time.perf_counter() - began) * 1000)
    return {"p50_ms": round(statistics.median(times), 2), "p99_ms": round(statistics.quantiles(times, n=100)[98], 2)}


async def docker_exec(name: str) -> None:
    """The peer, as most agents call it."""
    process = await asyncio.create_subprocess_exec("docker", "exec", name, "/bin/sh", "-c", "true")
    assert await process.wait() == 0


async def calls_per_second(calls: list[Call], each: int) -> float:
    async def work(call: Call) -> None:
        for _ in range(each):
            await call()

    began = time.perf_counter()
    await asyncio.gather(*(work(call) for call in calls))
    return round(len(calls) * each / (time.perf_counter() - began), 1)


async def one_sandbox(sandbox: OpenSandbox) -> dict[str, dict[str, float]]:
    return {
        "tool server, exec": await latencies_ms(lambda: sandbox.exec(TRUE), CALLS),
        "tool server, stat": await latencies_ms(lambda: sandbox.stat("/workspace"), CALLS),
        "docker exec (peer)": await latencies_ms(lambda: docker_exec(sandbox.id), PEER_CALLS),
    }


async def many_sandboxes(driver: DockerDriver) -> dict[str, float]:
    began = time.perf_counter()
    sandboxes = await asyncio.gather(*(driver.open(SPEC) for _ in range(SANDBOXES)))
    opened_s = time.perf_counter() - began
    ours: list[Call] = [lambda sandbox=sandbox: sandbox.exec(TRUE) for sandbox in sandboxes]
    theirs: list[Call] = [lambda sandbox=sandbox: docker_exec(sandbox.id) for sandbox in sandboxes]
    figures = {
        "opened_s": round(opened_s, 2),
        "calls_per_s": await calls_per_second(ours, CALLS_EACH),
        "docker_exec_calls_per_s": await calls_per_second(theirs, 3),
    }
    began = time.perf_counter()
    await asyncio.gather(*(sandbox.close() for sandbox in sandboxes))
    return {**figures, "closed_s": round(time.perf_counter() - began, 2)}


async def main() -> None:
    state_dir = Path(tempfile.mkdtemp(prefix="muster-bench-"))
    try:
        async with DockerDriver(state_dir, f"bench-{uuid.uuid4().hex}") as driver:
            async with await driver.open(SPEC) as sandbox:
                one = await one_sandbox(sandbox)
            many = await many_sandboxes(driver)
    finally:
        shutil.rmtree(state_dir)
    for name, figures in one.items():
        print(f"one sandbox: {name:20} p50 {figures['p50_ms']:7.2f} ms   p99 {figures['p99_ms']:7.2f} ms")
    print(f"{SANDBOXES} sandboxes: opened in {many['opened_s']} s, closed in {many['closed_s']} s")
    print(f"{SANDBOXES} sandboxes: tool server        {many['calls_per_s']:8.1f} calls/s")
    print(f"{SANDBOXES} sandboxes: docker exec (peer) {many['docker_exec_calls_per_s']:8.1f} calls/s")
    print(json.dumps({"benchmark": "sandbox", "one": one, "many": many}))


if __name__ == "__main__":
    asyncio.run(main())
