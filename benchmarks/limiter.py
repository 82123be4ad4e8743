"""How well a fleet keeps to a limit that it does not know: 16 processes, one provider whose limit is halved mid-run.

    python -m benchmarks.limiter [--quick] [--no-peer] [--json FILE]

The provider is a real HTTP server on the loopback that counts as providers do (a token bucket that holds one second)
and answers 429 with `Retry-After` in whole seconds. Each process runs 10 agents that call without a pause. Ours go
through `Retrying` and the limiter in Redis; the peer's are the same without the limiter: exponential backoff alone,
against a provider of its own. `before` and `after` the halving are steady: without the first 10 s.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from aiohttp import web

from transport.embedded import embedded_redis

from .queue import Process, Row, show

PROCESSES = 16
AGENTS = 10  # of each process
PER_S = 100.0  # calls; then half of it
SETTLING_S = 10.0


@dataclass
class Provider:
    """What came when, in seconds since the start, and whether it was served."""

    half_s: float
    began_s: float = 0.0
    level: float = PER_S
    filled_at_s: float = 0.0
    calls: list[tuple[float, bool]] = field(default_factory=list)

    def per_s(self, at_s: float) -> float:
        return PER_S if at_s < self.half_s else PER_S / 2

    async def answer(self, request: web.Request) -> web.Response:
        await request.read()
        at_s = time.monotonic() - self.began_s
        rate = self.per_s(at_s)
        self.level = min(rate, self.level + (at_s - self.filled_at_s) * rate)
        self.filled_at_s = at_s
        served = self.level >= 1
        self.calls.append((at_s, served))
        if not served:
            wait_s = math.ceil((1 - self.level) / rate)
            return web.Response(status=429, headers={"Retry-After": str(wait_s)})
        self.level -= 1
        return web.Response(text="ok")

    def figures(self, from_s: float, to_s: float) -> tuple[float, float]:
        """The share of calls that were refused, and of the capacity that was used; in percent."""
        seen = [served for at_s, served in self.calls if from_s <= at_s < to_s]
        capacity = self.per_s(from_s) * (to_s - from_s)
        return 100 * seen.count(False) / max(1, len(seen)), 100 * seen.count(True) / capacity


@asynccontextmanager
async def serving(provider: Provider) -> AsyncGenerator[str]:
    application = web.Application()
    application.router.add_post("/", provider.answer)
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, backlog=1024).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/"
    finally:
        await runner.cleanup()


async def measure(half_s: float, *, redis_url: str) -> Row:
    """`redis_url` is empty for the peer."""
    provider = Provider(half_s)
    async with AsyncExitStack() as stack:
        url = await stack.enter_async_context(serving(provider))
        starting = (Process.start("benchmarks.limiter_worker", url, AGENTS, redis_url or "-") for _ in range(PROCESSES))
        processes = await asyncio.gather(*starting)
        for process in processes:
            stack.push_async_callback(process.end)
        provider.began_s = time.monotonic()
        for process in processes:
            process.go()
        await asyncio.sleep(2 * half_s)
        provider_calls = len(provider.calls)
        before = provider.figures(SETTLING_S, half_s)
        after = provider.figures(half_s + SETTLING_S, 2 * half_s)
        changing = provider.figures(half_s, half_s + SETTLING_S)
    names = ("refused_%", "used_%")
    parts = {"before": before, "changing": changing, "after": after}
    row = {f"{part}_{name}": figure for part, pair in parts.items() for name, figure in zip(names, pair, strict=True)}
    return {**row, "calls": provider_calls}


async def measure_all(half_s: float, *, peer: bool) -> dict[str, Row]:
    report: dict[str, Row] = {}
    with tempfile.TemporaryDirectory(prefix="muster-bench-") as folder:
        async with embedded_redis(Path(folder)) as server:
            urls = {"the fleet's limiter": server.url} | ({"backoff alone": ""} if peer else {})
            for name, url in urls.items():
                report[name] = await measure(half_s, redis_url=url)
                show(name, report[name])
    return report


def main(arguments: Sequence[str] = sys.argv[1:]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="halves of 20 s instead of 30 s")
    parser.add_argument("--no-peer", action="store_true", help="leave the peer out")
    parser.add_argument("--json", type=Path, help="write the figures there, too")
    options = parser.parse_args(arguments)
    report = asyncio.run(measure_all(20.0 if options.quick else 30.0, peer=not options.no_peer))
    if options.json:
        options.json.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
