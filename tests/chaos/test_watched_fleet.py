"""Real processes, a real Prometheus with the rules that ship: a fault is made, and somebody would be called.

Rules are as they ship but for `for`, which is two seconds (`hurried`), and are looked at each second.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
import pytest_asyncio
from lab.fleet import Fleet

from envelope.errors import ErrorCode
from envelope.ids import new_task_id, new_trace_id
from envelope.lifecycle import State
from envelope.messages import ErrorInfo, TaskInput, TaskRequest, TaskResult
from scripts.monitoring.panels import DASHBOARDS
from scripts.monitoring.watch import PAUSE_S, Prometheus, asked, prometheus
from transport.base import Transport

pytestmark = [pytest.mark.redis, pytest.mark.docker]

TIMEOUT_S = 240  # bounds a hang, and nothing else
CANARY = "canary-c41d07"  # a secret: in a task, and in the environment of all processes
SOAK = os.environ.get("MUSTER_CHAOS") == "soak"


@dataclass
class Watched:
    """An orchestrator and a worker of the pool `general`, which Prometheus scrapes."""

    prometheus: Prometheus
    worker: asyncio.subprocess.Process
    start: Callable[..., Awaitable[asyncio.subprocess.Process]]


Watch = Callable[[], Awaitable[Watched]]


def request(pool: str) -> TaskRequest:
    return TaskRequest(
        task_id=new_task_id(), trace_id=new_trace_id(), sender="test", recipient=pool, agent="recipe",
        input=TaskInput(prompt=CANARY, params={"commands": [f"true {CANARY}"]}), auth_scope=("bash:**",),
        deadline_ms=600_000, created_at_ms=time.time_ns() // 1_000_000,
    )  # fmt: skip


@asynccontextmanager
async def process(*words: str, environment: dict[str, str]) -> AsyncIterator[asyncio.subprocess.Process]:
    made = await asyncio.create_subprocess_exec(
        sys.executable, "-m", *words, env=environment,
        stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    try:
        yield made
    finally:
        if made.returncode is None:
            made.terminate()
        await made.wait()


async def addresses(transport: Transport, pools: set[str]) -> dict[str, str]:
    """Where the processes show their metrics: their cards say so as soon as they serve."""
    while True:
        cards = {card.pool: card for card in await transport.workers()}
        if pools <= cards.keys():
            return {pool: f"127.0.0.1:{cards[pool].metrics_port}" for pool in pools}
        await asyncio.sleep(0.1)


@pytest_asyncio.fixture
async def watch(
    transport: Transport, fleet: Fleet, folder: Path, debian_program: Callable[[str], str]
) -> AsyncIterator[Watch]:
    environment = os.environ | {
        "MUSTER_FLEET": fleet.name, "MUSTER_KEYRING": fleet.keyring,
        "MUSTER_STATE_DIR": str(folder / "state"), "MUSTER_CONFIG": str(folder / "none.toml"),
        "MUSTER_MODEL_API_KEY": CANARY,
    }  # fmt: skip
    async with asyncio.timeout(TIMEOUT_S), AsyncExitStack() as stack:

        async def start(*words: str) -> asyncio.subprocess.Process:
            url = fleet.of_workers().url if words[0].startswith("workers.") else fleet.url
            theirs = environment | {"MUSTER_REDIS_URL": url}
            return await stack.enter_async_context(process(*words, environment=theirs))

        async def watched() -> Watched:
            await start("orchestrator.service")
            worker = await start("workers.cli.worker", "general")
            targets = await addresses(transport, {"orchestrator", "general"})
            found = await stack.enter_async_context(prometheus(debian_program("prometheus"), folder, targets))
            await found.until("count(up == 1) == 2")
            return Watched(found, worker, start)

        yield watched


async def bury(transport: Transport) -> None:
    """A task that nobody can do goes to the dead letters."""
    await transport.submit([request("explore")])
    [claim] = await transport.claim("explore", "test", slots=1, wait_s=TIMEOUT_S)
    lease = claim.lease
    failed = TaskResult(
        trace_id=lease.trace_id, task_id=lease.task_id, attempt=lease.attempt, status=State.ERROR,
        errors=(ErrorInfo.of(ErrorCode.BAD_INPUT, "it cannot be read"),),
    )  # fmt: skip
    assert await transport.finish(lease, failed, dead="it cannot be read")


async def test_a_pool_that_nobody_serves_is_told(watch: Watch, transport: Transport):
    await transport.submit([request("build") for _ in range(3)])

    watched = await watch()

    firing = await watched.prometheus.until_alert("MusterNoWorkers", "firing")
    assert firing["annotations"]["summary"] == "Pool build: 3 tasks wait, and no worker is alive."
    assert firing["labels"] == {"alertname": "MusterNoWorkers", "severity": "page", "pool": "build", "fleet": "main"}
    found = await watched.prometheus.alerts()  # where a scrape came late, others are pending for a moment
    firing_now = {name for name, them in found.items() if any(one["state"] == "firing" for one in them)}
    assert firing_now == {"MusterNoWorkers"}
    panels = [panel for board in DASHBOARDS for panel in board.panels]
    shown = str([await watched.prometheus.ask(asked(query)) for panel in panels for _, query in panel.queries])
    assert "'pool': 'build'" in shown
    assert CANARY not in shown


@pytest.mark.skipif(not SOAK, reason="a killed worker is forgotten after 15 s: make soak")
async def test_a_killed_worker_and_a_dead_letter_are_told_and_a_successor_ends_it(watch: Watch, transport: Transport):
    watched = await watch()
    await watched.prometheus.until('muster_pool_workers{pool="general"} == 1 and on () muster:dead_letters == 0')
    while await watched.prometheus.alerts() != {}:
        await asyncio.sleep(PAUSE_S)

    watched.worker.kill()
    await watched.worker.wait()
    await transport.submit([request("general") for _ in range(2)])
    await bury(transport)

    letters = await watched.prometheus.until_alert("MusterDeadLettersGrow", "firing")
    assert letters["annotations"]["summary"] == "1 more tasks were given up within half an hour."
    pending = await watched.prometheus.until_alert("MusterNoWorkers", "pending")
    assert pending["labels"]["pool"] == "general"
    firing = await watched.prometheus.until_alert("MusterNoWorkers", "firing")
    assert firing["annotations"]["summary"] == "Pool general: 2 tasks wait, and no worker is alive."

    await watched.start("workers.cli.worker", "general")
    await watched.prometheus.until('absent(ALERTS{alertname="MusterNoWorkers"})')
