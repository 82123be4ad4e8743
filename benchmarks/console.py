"""The console under load: a trace of 1,000 tasks, a browser before it, 200 who watch, and a task with a long past.

    python -m benchmarks.console [--tasks 1000] [--streams 200] [--entries 100000]

A Redis and a server in a process of its own; the workers are played. Aims: first paint within 500 ms at p95; from the
event in Redis to the document within 300 ms at p95; a page of at most 150 KB; 200 streams on less than one core, with
memory that stays where it is. It takes about two minutes. `--each` and `--events` measure other things instead: see
`--help`.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import aiohttp
from playwright.async_api import async_playwright

from envelope.agents import AgentCard, WorkerCard
from envelope.events import AskOpened, CallState, ChildSpawned, TextDelta, TitleSet, ToolCallChanged
from envelope.lifecycle import State
from envelope.messages import TaskProgress
from orchestrator.api.tokens import Role, Tokens
from orchestrator.client import Muster
from orchestrator.settings import Settings
from orchestrator.submit import task_request
from transport.base import Lease, Transport, Wait
from transport.embedded import embedded_redis
from transport.settings import connect

MUSTER = Path(sys.executable).parent / "muster"
CHROMIUM = "/usr/bin/chromium"
CARD = AgentCard(name="build", mode="primary", pool="build", auth_scope=("read:**",))
PAINTS, EVENTS = 40, 50
PER_TOKEN = 10  # streams of one person
WATCHED_S, EVERY_S = 20.0, 0.1
AT_ONCE = 500  # entries that are under way to Redis
REPLAYS = 20
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
    """A root with its children, of which as many run as may at once."""

    def __init__(self, transport: Transport, lease: Lease) -> None:
        self.transport, self.lease, self.seq = transport, lease, 0
        self.children: list[Trace] = []

    @classmethod
    async def begun(cls, muster: Muster, tasks: int) -> Trace:
        """Submits the root and its children, and claims them as far as that goes; each that runs says one thing."""
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
            for one in await muster.transport.claim("build", "w", slots=100, wait_s=0.01):
                child = cls(muster.transport, one.lease)
                await child.tell(TitleSet(title=f"looks at {one.lease.task_id[-4:]}"))
                trace.children.append(child)
        return trace

    async def tell(self, *events: object) -> None:
        """One entry of the root's, with the events as its worker would tell them."""
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
        """`muster serve` on a free port, once it listens."""
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
    """A browser's cookies and connections; `stack` closes them."""
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


@dataclass(slots=True)
class Heard:
    """What one console was sent. A message is one chunk of the answer, as the server wrote it."""

    first_bytes: int = 0  # of its first two: how to come again, and all that there is
    messages: int = 0
    bytes: int = 0

    def add(self, size: int) -> None:
        self.messages += 1
        self.bytes += size
        if self.messages <= 2:
            self.first_bytes += size


async def watch(session: aiohttp.ClientSession, address: str, heard: Heard) -> None:
    """As a browser does, but that it unpacks nothing: that would be this process's own work, beside the server."""
    forever = aiohttp.ClientTimeout(total=None)
    async with session.get(address, timeout=forever, auto_decompress=False) as answer:
        answer.raise_for_status()
        size = 0
        async for data, is_whole in answer.content.iter_chunks():
            size += len(data)
            if is_whole:
                heard.add(size)
                size = 0


async def watched(
    sessions: Sequence[aiohttp.ClientSession],
    server: Server,
    traces: Sequence[Trace],
    streams: int,
    pages: Sequence[str],
) -> str:
    """What so many streams of these pages, in turn, cost while ten events come in a second, or one to each of many
    traces."""
    heard = [Heard() for _ in range(streams)]
    addresses = [f"{server.url}/console{page}" for page in pages]
    watching = [
        asyncio.create_task(watch(sessions[number // PER_TOKEN], addresses[number % len(addresses)], heard[number]))
        for number in range(streams)
    ]
    while not all(one.messages >= 2 for one in heard):
        for one in watching:
            if one.done():
                one.result()
        await asyncio.sleep(0.1)
    cpu_s, memory_mib, began = server.cpu_s(), server.memory_mib(), time.perf_counter()
    before, before_bytes = sum(one.messages for one in heard), sum(one.bytes for one in heard)
    turns = min(len(traces), round(1 / EVERY_S))
    for turn in itertools.count():
        if time.perf_counter() - began >= WATCHED_S:
            break
        some = traces[turn % turns :: turns]
        await asyncio.gather(*(one.tell(TitleSet(title=f"title {time.time()}")) for one in some))
        await asyncio.sleep(EVERY_S)
    took_s = time.perf_counter() - began
    cores = (server.cpu_s() - cpu_s) / took_s
    after_mib = server.memory_mib()
    for one in watching:
        one.cancel()
    await asyncio.gather(*watching, return_exceptions=True)
    messages = sum(one.messages for one in heard) - before
    each = (sum(one.bytes for one in heard) - before_bytes) / max(1, messages)
    return (
        f"{cores:.2f} cores, {memory_mib:.0f} MiB before and {after_mib:.0f} after, "
        f"{messages / streams / took_s:.1f} messages/s each of {each:.0f} bytes; the first {heard[0].first_bytes} bytes"
    )


async def with_a_past(muster: Muster, entries: int) -> Trace:
    """One task that has said and done much: a tool call for each ten pieces of text."""
    trace = await Trace.begun(muster, 0)
    for start in range(0, entries, AT_ONCE):
        numbers = range(start, min(start + AT_ONCE, entries))
        await asyncio.gather(*(trace.tell(_said(number)) for number in numbers))
    return trace


def _said(number: int) -> object:
    if number % 10:
        return TextDelta(text=f"and then {number} ")
    output = f"{number} passed"
    return ToolCallChanged(call_id=str(number), tool="bash", title="make", state=CallState.COMPLETED, output=output)


async def replayed(session: aiohttp.ClientSession, server: Server, trace: Trace, entries: int) -> str:
    """The page of a task with a long past: at first, again, and as it was at steps all over it."""
    page = f"{server.url}/console/tasks/{trace.lease.task_id}"
    memory_mib = server.memory_mib()
    cold_ms, warm_ms = await timed(lambda: _got(session, page)), await timed(lambda: _got(session, page))
    steps = [entries * number // REPLAYS for number in range(1, REPLAYS + 1)]
    took_ms = [await timed(lambda step=step: _got(session, f"{page}?step={step}")) for step in steps]
    return (
        f"cold {cold_ms:.0f} ms, again {warm_ms:.0f} ms, a step {told(took_ms)}; "
        f"{memory_mib:.0f} MiB before and {server.memory_mib():.0f} after"
    )


async def timed(do: Callable[[], Awaitable[None]]) -> float:
    began = time.perf_counter()
    await do()
    return (time.perf_counter() - began) * 1000


async def _got(session: aiohttp.ClientSession, address: str) -> None:
    async with session.get(address) as answer:
        answer.raise_for_status()
        await answer.read()


@dataclass(frozen=True, slots=True)
class Fleet:
    """`sessions`: of `PER_TOKEN` streams each, and one more."""

    muster: Muster
    server: Server
    sessions: Sequence[aiohttp.ClientSession]


@asynccontextmanager
async def fleet(streams: int, max_entries: int) -> AsyncGenerator[Fleet]:
    """Everything that was started has ended when this is left."""
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="muster-bench-")))
        redis = await stack.enter_async_context(embedded_redis(folder / "redis"))
        own = {"redis_url": redis.url, "fleet": "bench", "state_dir": folder / "state", "max_entries": max_entries}
        settings = Settings(**own, lease_s=3600)
        transport = await connect(settings)
        stack.push_async_callback(transport.close)
        await transport.announce(WorkerCard(worker="w", pool="build", slots=1, agents=(CARD,)), ttl_s=3600)
        tokens = Tokens(transport.registry)
        secrets = [
            await tokens.create(f"t{number}", Role.VIEWER, "default") for number in range(-(-streams // PER_TOKEN) + 1)
        ]
        named = {f"MUSTER_{name.upper()}": str(value) for name, value in own.items()}
        server = await Server.started({**os.environ, **named})
        try:
            sessions = [await signed_in(stack, server.url, secret) for secret in secrets]
            print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
            yield Fleet(Muster(transport, settings), server, sessions)
        finally:
            server.process.terminate()
            await server.process.wait()


async def of_one_trace(at: Fleet, tasks: int, streams: int, entries: int) -> None:
    """Print what the module tells; `entries`: the steps of the task with a long past, none for 0."""
    trace = await Trace.begun(at.muster, tasks)
    print(f"a trace of {tasks + 1} tasks")
    await painted(at.sessions[-1], at.server, trace)
    seen_ms = await to_the_document(at.sessions[-1], at.server.url, trace)
    print(f"to the DOM    {told(seen_ms)}")
    ids = trace.lease
    of_trace, others = f"/traces/{ids.trace_id}/live", ("/live", "/traces-live", "/asks/live")
    for told_as, pages in {
        "of one trace": [of_trace],
        "of all pages": [of_trace, f"/tasks/{ids.task_id}/live", *others],
    }.items():
        print(f"{streams} {told_as}  {await watched(at.sessions, at.server, [trace], streams, pages)}")
    if entries:
        long = await with_a_past(at.muster, entries)
        print(f"{entries} steps  {await replayed(at.sessions[-1], at.server, long, entries)}")


async def of_many_traces(at: Fleet, tasks: int, streams: int) -> None:
    """Each stream on a trace of its own."""
    traces = [await Trace.begun(at.muster, tasks) for _ in range(streams)]
    pages = [f"/traces/{trace.lease.trace_id}/live" for trace in traces]
    print(f"{streams} of traces of {tasks + 1}  {await watched(at.sessions, at.server, traces, streams, pages)}")


async def of_many_events(at: Fleet, tasks: int, events: int) -> None:
    """Pages of a trace in which very much has happened, and whose root asks something."""
    trace = await Trace.begun(at.muster, tasks)
    began = time.perf_counter()
    for start in range(0, events, AT_ONCE):
        numbers = range(start, min(start + AT_ONCE, events))
        speakers = trace.children or [trace]
        await asyncio.gather(*(speakers[number % len(speakers)].tell(_said(number)) for number in numbers))
    print(f"{events} events of {tasks + 1} tasks, told in {time.perf_counter() - began:.0f} s")
    ask = AskOpened(ask_id="ask_1", permission="question", question="Which colour?")
    await trace.tell(ask)
    assert await at.muster.transport.park(trace.lease, Wait(asks=frozenset({ask.ask_id})))
    ids = trace.lease
    of_trace = f"/traces/{ids.trace_id}"
    child = trace.children[0].lease.task_id if trace.children else ids.task_id
    for page in (of_trace, "/", "/asks", f"/asks/{ask.ask_id}", f"/tasks/{ids.task_id}", f"/tasks/{child}"):
        for said in ("first", "again"):
            cpu_s = at.server.cpu_s()
            took_ms = await timed(lambda page=page: _got(at.sessions[-1], f"{at.server.url}/console{page}"))
            cost = f"{at.server.cpu_s() - cpu_s:.2f} s of CPU, {at.server.memory_mib():.0f} MiB"
            print(f"{said} {page[:8]:10} {took_ms:8.0f} ms, {cost}")
    print(f"1 of it  {await watched(at.sessions, at.server, trace.children[:1] or [trace], 1, [f'{of_trace}/live'])}")
    print(f"1 of asks  {await watched(at.sessions, at.server, trace.children[:1] or [trace], 1, ['/asks/live'])}")


async def painted(session: aiohttp.ClientSession, server: Server, trace: Trace) -> None:
    first_ms, paints_ms, size = await paints(session, f"{server.url}/console/traces/{trace.lease.trace_id}")
    weights = [size]
    for name in ("console.css", "console.js", "mark.svg"):
        async with session.get(f"{server.url}/console/static/{name}") as answer:
            weights.append(len(await answer.read()))
    print(f"first paint   {told(paints_ms)}; cold {first_ms:.0f} ms")
    print(f"page weight   {sum(weights) / 1000:.0f} KB ({json.dumps(weights)})")


async def measured(chosen: argparse.Namespace) -> None:
    """All of it, printed as it comes."""
    async with fleet(chosen.streams, chosen.kept or max(100_000, 2 * chosen.events)) as at:
        if chosen.events:
            await of_many_events(at, chosen.tasks, chosen.events)
        elif chosen.each:
            await of_many_traces(at, chosen.tasks, chosen.streams)
        else:
            await of_one_trace(at, chosen.tasks, chosen.streams, chosen.entries)


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--tasks", type=int, default=1000)
    options.add_argument("--streams", type=int, default=200)
    options.add_argument("--entries", type=int, default=100_000)
    options.add_argument("--each", action="store_true", help="each stream on a trace of its own, and nothing else")
    options.add_argument("--events", type=int, default=0, help="so many events of one trace, and nothing else")
    options.add_argument("--kept", type=int, default=0, help="so many of them alone are kept; 0: all")
    asyncio.run(measured(options.parse_args()))
