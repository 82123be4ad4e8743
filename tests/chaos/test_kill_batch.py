"""A batch over many repositories, while all that takes part in it is killed: the same commits, the same verdicts."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Awaitable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from lab.batch_command import BatchCommand
from lab.batch_corpus import batch_file, make_repositories, outcome
from lab.batch_fleet import BatchFleet, batch_fleet
from lab.figures import report
from lab.schedule import SOAK, seeds
from lab.server import Server, redis_server

from envelope.errors import ExitCode
from envelope.ids import new_trace_id
from orchestrator.batch.report import REPORT_NAME, BatchReport
from orchestrator.client import Muster
from orchestrator.settings import Settings
from orchestrator.submit import BATCH
from transport import keyring
from transport.settings import connect

pytestmark = [pytest.mark.chaos, pytest.mark.redis]

REPOSITORIES = int(os.environ.get("MUSTER_CHAOS_REPOSITORIES", "200"))
PAUSE_S, LIMIT_S = 1.0, 5400
LARGE = ("orchestrator", "orchestrator", "worker", "worker")
# Some of its shards fail on purpose: so it ends, undisturbed, too.
ENDS = frozenset({ExitCode.PARTIAL, ExitCode.NOT_ACCEPTABLE})


@dataclass(frozen=True, slots=True)
class Scene:
    fleet: BatchFleet
    muster: Muster
    folder: Path

    def command(self, file: Path) -> BatchCommand:
        return BatchCommand(file, self.fleet.environment, self.folder / "command.log")

    async def first_report(self) -> BatchReport:
        """Of the only batch, or the first of those that a command which was killed at its end has made."""
        batches = [task for task in await self.muster.tasks(limit=10_000) if task.agent == BATCH]
        first = min(batches, key=lambda task: task.accepted_at_ms)
        return await self.report_of(first.task_id)

    async def last_report(self) -> BatchReport:
        batches = [task for task in await self.muster.tasks(limit=10_000) if task.agent == BATCH]
        return await self.report_of(max(batches, key=lambda task: task.accepted_at_ms).task_id)

    async def report_of(self, task_id: str) -> BatchReport:
        result = await self.muster.result(task_id)
        assert result is not None
        assert any(each.name == REPORT_NAME for each in result.attachments), result.errors
        return BatchReport.model_validate_json(await self.muster.attachment(result, REPORT_NAME))


@asynccontextmanager
async def scene(server: Server, folder: Path, places: tuple[str, ...], *, lease_s: float) -> AsyncIterator[Scene]:
    """With the limits that a fleet has, but for leases: a worker that was killed is missed sooner."""
    folder.mkdir()
    keys, fleet_name = folder / "keyring.json", f"chaos-kill-{new_trace_id()[:8]}"
    keyring.load_or_create(keys)
    clean = {name: text for name, text in os.environ.items() if not name.startswith("MUSTER_")}
    environment: Mapping[str, str] = clean | {
        "MUSTER_REDIS_URL": server.url, "MUSTER_FLEET": fleet_name, "MUSTER_KEYRING": str(keys),
        "MUSTER_STATE_DIR": str(folder / "state"), "MUSTER_CONFIG": str(folder / "none.toml"), "HOME": str(folder),
        "MUSTER_SANDBOX_DRIVER": "bubblewrap", "MUSTER_LEASE_S": str(lease_s), "MUSTER_POOLS": '{"build": 4}',
    }  # fmt: skip
    settings = Settings(
        redis_url=server.url, fleet=fleet_name, keyring=keys, state_dir=folder / "state", lease_s=lease_s
    )
    async with batch_fleet(server, environment, folder / "fleet.log", places) as fleet:
        await fleet.whole()
        transport = await connect(settings)
        try:
            yield Scene(fleet, Muster(transport, settings), folder)
        finally:
            await transport.close()


async def beside(doing: Awaitable[None], waited_for: Awaitable[int]) -> int:
    """What is waited for; the other thing goes on without end until then."""
    other = asyncio.ensure_future(doing)
    try:
        return await waited_for
    finally:
        other.cancel()
        await asyncio.wait([other])


@pytest.mark.timeout(300)
async def test_a_batch_comes_to_the_same_after_everything_is_killed_at_once(folder: Path) -> None:
    make_repositories(folder / "work", 3)
    async with (
        redis_server(folder / "redis") as server,
        scene(server, folder / "fleet", ("orchestrator", "worker"), lease_s=2.0) as found,
    ):
        code = await found.command(batch_file(folder / "work", "calm.toml")).run(over=ENDS)
        calm = await found.first_report()
        struck = found.command(batch_file(folder / "work", "struck.toml", timeout_s=601))

        async def strike() -> None:
            await struck.at_work.wait()
            await found.fleet.strike_all(struck)

        assert await beside(strike(), struck.run(over=ENDS)) == code
        after = await found.last_report()
    assert outcome(after) == outcome(calm)
    assert struck.killed == 1


# Two fleets are started and two thousand sandboxes opened: for `make soak`.
@pytest.mark.skipif(not SOAK, reason="MUSTER_CHAOS=soak is not set")
@pytest.mark.timeout(LIMIT_S)
@pytest.mark.parametrize("seed", seeds(1))
async def test_a_batch_under_kills_comes_to_the_same(seed: int, folder: Path) -> None:
    work = folder / "work"
    make_repositories(work, REPOSITORIES)
    async with redis_server(folder / "redis") as server:
        began_s = time.monotonic()
        async with scene(server, folder / "calm", LARGE, lease_s=3.0) as found:
            await found.command(batch_file(work, "calm.toml")).run(over=ENDS)
            calm = await found.first_report()
        calm_s = time.monotonic() - began_s
        async with scene(server, folder / "struck", LARGE, lease_s=3.0) as found:
            command = found.command(batch_file(work, "struck.toml"))
            await beside(found.fleet.strike(seed, PAUSE_S, command), command.run(over=ENDS))
            struck = await found.first_report()
            counters = await found.muster.transport.counters()
    outcomes = [shard.outcome for one in calm.repositories for shard in one.shards]
    report("kill batch", seed=seed, repositories=REPOSITORIES, faults=found.fleet.struck,
           commands={"killed": command.killed, **{f"exit {code}": n for code, n in command.codes.items()}}, **counters,
           calm_s=round(calm_s, 1), struck_s=round(time.monotonic() - began_s - calm_s, 1),
           verified=sum(one.verified for one in calm.repositories),
           **{kind: outcomes.count(kind) for kind in sorted(set(outcomes))})  # fmt: skip
    assert outcome(struck) == outcome(calm), f"replay with MUSTER_CHAOS_SEED={seed}"
    assert {"applied", "failed", "collision"} <= set(outcomes)
    assert sum(found.fleet.struck.values()) > 0
