"""The console under load: a trace of 1,000 tasks, a browser before it, and 200 people who watch.

    python -m benchmarks.console [--tasks 1000] [--streams 200]

A Redis and a server in a process of its own; the workers are played. Aims: first paint within 500 ms at p95; from the
event in Redis to the document within 300 ms at p95; a page of at most 150 KB; 200 streams on less than one core, with
memory that stays where it is.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path

import aiohttp
from playwright.async_api import async_playwright

from envelope.agents import AgentCard, WorkerCard
from envelope.events import ChildSpawned, TitleSet
from envelope.lifecycle import State
from envelope.messages import TaskProgress
from orchestrator.api.tokens import Role, TokenFile
from orchestrator.client import Muster
from orchestrator.settings import Settings
from orchestrator.submit import task_request
from transport.base import Lease, Transport
from transport.embedded import embedded_redis
from transport.settings import connect

MUSTER = Path(sys.executable).parent / "muster"
CHROMIUM = "/usr/bin/chromium"
CARD = AgentCard(name="build", mode="primary", pool="build", auth_scope=("read:**",))
PAINTS, EVENTS = 40, 50
PER_TOKEN = 10  # streams of one person
WATCHED_S, EVERY_S = 10.0, 0.1
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
# Says when each title is in the document, on this machine's clock.
OBSERVE = """() => { window.seen = {}; new MutationObserver(() => {
  const title = document.querySelector("#tree .name")?.textContent.match(/news-\\d+/)?.[0];
  if (title && !(title in window.seen)) window.seen[title] = Date.now();
}).observe(document.getElementById("tree"), { childList: true, subtree: true, characterData: true }); }"""


def told(values_ms: Sequence[float]) -> str:
    p95 = statistics.quantiles(values_ms, n=20)[18]
    return f"p95 {p95:.0f} ms, p50 {statistics.median(values_ms):.0f} of {len(values_ms)}"


class Trace:
    """A root with its children, all of which run."""

    def __init__(self, transport: Transport, lease: Lease) -> None:
        self.transport, self.lease, self.seq = transport, lease, 0

    @classmethod
    async def begun(cls, muster: Muster, tasks: int) -> Trace:
        common = {"agent": "build", "pool": "build", "auth_scope": ("read:**",), "deadline_ms": 3_600_000}
        root = task_request(prompt="fan out", **common)
        await muster.submit(root)
        [claim] = await muster.transport.claim("build", "w", slots=1, wait_s=5)
        trace = cls(muster.transport, claim.lease)
        children = [task_request(parent=root, prompt=f"look at {number}", **common) for number in range(tasks)]
        for start in range(0, tasks, 100):
            some = children[start : start + 100]
            await muster.transport.submit(some, under=claim.lease)
            await trace.tell(
                *(ChildSpawned(child_task_id=one.task_id, agent="build", title=one.intent) for one in some)
            )
            for one in await muster.transport.claim("build", "w", slots=100, wait_s=5):
                await cls(muster.transport, one.lease).tell(TitleSet(title=f"looks at {one.lease.task_id[-4:]}"))
        return trace

    async def tell(self, *events: object) -> None:
        lease = self.lease
        names = {"trace_id": lease.trace_id, "task_id": lease.task_id, "attempt": lease.attempt, "seq": self.seq}
        self.seq += 1
        at_ms = time.time_ns() // 1_000_000
        await self.transport.emit(lease, TaskProgress(**names, at_ms=at_ms, status=State.RUNNING, events=events))


class Server:
    def __init__(self, process: asyncio.subprocess.Process, url: str) -> None:
        self.process, self.url = process, url

    @classmethod
    async def started(cls, environment: dict[str, str]) -> Server:
        words = [str(MUSTER), "serve", "--port", "0"]
        process = await asyncio.create_subprocess_exec(*words, env=environment, stderr=asyncio.subprocess.PIPE)
        assert process.stderr
        async for line in process.stderr:
            if b"listening on " in line:
                return cls(process, line.split(b"listening on ")[1].split()[0].decode())
        raise RuntimeError("the server has ended")

    def cpu_s(self) -> float:
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS_PER_S

    def memory_mib(self) -> float:
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.partition("VmRSS:")[2].split()[0]) / 1024


async def signed_in(stack: AsyncExitStack, url: str, secret: str) -> aiohttp.ClientSession:
    unlimited = aiohttp.TCPConnector(limit=0)
    jar = aiohttp.CookieJar(unsafe=True)
    session = await stack.enter_async_context(aiohttp.ClientSession(connector=unlimited, cookie_jar=jar))
    async with session.post(f"{url}/console/sign-in", data={"token": secret}, allow_redirects=False) as answer:
        assert answer.status == 303, answer.status
    return session


async def paints(session: aiohttp.ClientSession, page: str) -> tuple[float, list[float], int]:
    """The first one, which folds the trace, and others in ms; the bytes of one."""
    took: list[float] = []
    size = 0
    for _ in range(PAINTS + 1):
        began = time.perf_counter()
        async with session.get(page) as answer:
            size = len(await answer.read())
        took.append((time.perf_counter() - began) * 1000)
        await asyncio.sleep(0.05)
    return took[0], took[1:], size


async def to_the_document(session: aiohttp.ClientSession, url: str, trace: Trace) -> list[float]:
    """From before an event is written to when a browser has it in its document, in ms."""
    cookies = [{"name": one.key, "value": one.value, "url": f"{url}/console"} for one in session.cookie_jar]
    async with async_playwright() as play:
        browser = await play.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        context = await browser.new_context()
        await context.add_cookies(cookies)
        page = await context.new_page()
        await page.goto(f"{url}/console/traces/{trace.lease.trace_id}")
        await page.locator(".tree.virtual").wait_for()
        await page.evaluate(OBSERVE)
        sent: dict[str, float] = {}
        for number in range(EVENTS):
            sent[f"news-{number}"] = time.time() * 1000
            await trace.tell(TitleSet(title=f"news-{number}"))
            await asyncio.sleep(0.25)
        await page.wait_for_function(f"'news-{EVENTS - 1}' in window.seen")
        seen = await page.evaluate("window.seen")
        await browser.close()
    return [seen[name] - at_ms for name, at_ms in sent.items() if name in seen]


async def watched(sessions: Sequence[aiohttp.ClientSession], server: Server, trace: Trace, streams: int) -> str:
    """What so many streams cost while ten events come in a second."""
    got = [0] * streams
    address = f"{server.url}/console/traces/{trace.lease.trace_id}/live"

    async def watch(number: int) -> None:
        session = sessions[number // PER_TOKEN]
        async with session.get(address, timeout=aiohttp.ClientTimeout(total=None)) as answer:
            answer.raise_for_status()
            async for chunk in answer.content.iter_any():  # a first message is as long as the tree
                got[number] += chunk.count(b"\n\n")

    watching = [asyncio.create_task(watch(number)) for number in range(streams)]
    while not all(got):
        for one in watching:
            if one.done():
                one.result()
        await asyncio.sleep(0.1)
    cpu_s, memory_mib, began = server.cpu_s(), server.memory_mib(), time.perf_counter()
    before = sum(got)
    while time.perf_counter() - began < WATCHED_S:
        await trace.tell(TitleSet(title=f"title {time.time()}"))
        await asyncio.sleep(EVERY_S)
    took_s = time.perf_counter() - began
    cores = (server.cpu_s() - cpu_s) / took_s
    after_mib = server.memory_mib()
    for one in watching:
        one.cancel()
    await asyncio.gather(*watching, return_exceptions=True)
    each_s = (sum(got) - before) / streams / took_s
    return f"{cores:.2f} cores, {memory_mib:.0f} MiB before and {after_mib:.0f} after, {each_s:.1f} messages/s each"


async def measured(tasks: int, streams: int) -> None:
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="muster-bench-")))
        redis = await stack.enter_async_context(embedded_redis(folder / "redis"))
        settings = Settings(redis_url=redis.url, fleet="bench", state_dir=folder / "state", lease_s=3600)
        transport = await connect(settings)
        stack.push_async_callback(transport.close)
        await transport.announce(WorkerCard(worker="w", pool="build", slots=1, agents=(CARD,)), ttl_s=3600)
        trace = await Trace.begun(Muster(transport, settings), tasks)
        tokens = TokenFile(folder / "state" / "api-tokens.json")
        secrets = [
            tokens.create(f"t{number}", Role.VIEWER, "default") for number in range(-(-streams // PER_TOKEN) + 1)
        ]
        named = {"MUSTER_REDIS_URL": redis.url, "MUSTER_FLEET": "bench", "MUSTER_STATE_DIR": str(folder / "state")}
        server = await Server.started({**os.environ, **named})
        try:
            sessions = [await signed_in(stack, server.url, secret) for secret in secrets]
            page = f"{server.url}/console/traces/{trace.lease.trace_id}"
            first_ms, paints_ms, size = await paints(sessions[-1], page)
            weights = [size]
            for name in ("console.css", "console.js", "mark.svg"):
                async with sessions[-1].get(f"{server.url}/console/static/{name}") as answer:
                    weights.append(len(await answer.read()))
            print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores; a trace of {tasks + 1} tasks")
            print(f"first paint   {told(paints_ms)}; cold {first_ms:.0f} ms")
            print(f"page weight   {sum(weights) / 1000:.0f} KB ({json.dumps(weights)})")
            seen_ms = await to_the_document(sessions[-1], server.url, trace)
            print(f"to the DOM    {told(seen_ms)}")
            print(f"{streams} streams   {await watched(sessions, server, trace, streams)}")
        finally:
            server.process.terminate()
            await server.process.wait()


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--tasks", type=int, default=1000)
    options.add_argument("--streams", type=int, default=200)
    chosen = options.parse_args()
    asyncio.run(measured(chosen.tasks, chosen.streams))
