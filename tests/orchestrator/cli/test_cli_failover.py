"""A server that fails over may forget what it has accepted: the command that waits for it submits it again."""

from __future__ import annotations

import asyncio

import pytest
from redis.asyncio import Redis

from envelope.agents import WorkerCard
from envelope.messages import TaskRequest
from orchestrator.submit import DRIVERS

pytestmark = [pytest.mark.redis, pytest.mark.chaos]

BATCH = """
name = "modernise"
[[repositories]]
path = "project"
[shards]
glob = "src/*.py"
[[steps]]
recipe = ["fix {path}"]
[gate]
commands = ["run-tests"]
[publish]
branch = "modernised"
"""
FILES = {"src/a.py": "old a\n", "src/b.py": "old b\n", "tests/t.py": "assert\nassert\n"}


async def forget_all_tasks(url: str, fleet: str) -> None:
    """As after a failover to a replica that has heard of nothing since the blobs were put."""
    async with Redis.from_url(url) as server:
        names = [name async for name in server.scan_iter(match=f"{{muster:{fleet}:*", count=1000)]
        assert await server.delete(*names) == len(names) > 0


async def test_a_batch_that_the_server_forgot_is_done_and_published_all_the_same(served_stage, desk):
    stage, settings = served_stage, served_stage.muster.settings
    started, release = asyncio.Event(), asyncio.Event()

    async def hold(_task: TaskRequest) -> None:
        started.set()
        await release.wait()

    stage.builders.before_start = hold
    project = desk.repository("project", FILES)
    (desk.home / "batch.toml").write_text(BATCH)
    told = {
        "MUSTER_REDIS_URL": settings.redis_url,
        "MUSTER_FLEET": settings.fleet,
        "MUSTER_STATE_DIR": str(settings.state_dir),
    }
    for pool in (DRIVERS, *settings.pools):
        await stage.transport.announce(WorkerCard(worker=f"{pool}-1", pool=pool, slots=4), ttl_s=60)
    async with stage.orchestrator(), stage.workers():
        running = asyncio.create_task(asyncio.to_thread(desk.muster, "batch", "run", "batch.toml", env=told))
        await started.wait()
        await forget_all_tasks(settings.redis_url, settings.fleet)
        release.set()
        done = await running

    assert done.exit_code == 0, done.stderr
    assert "done and verified" in done.stderr
    assert desk.git("show", "modernised:src/a.py", repository=project) == "new a"
