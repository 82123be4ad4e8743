"""A worker that opens sandboxes ahead."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from envelope.lifecycle import State
from envelope.messages import TaskInput
from sandbox.driver import DockerDriver
from workers.sandboxes.reaping import sweep
from workers.settings import WorkerSettings

pytestmark = [pytest.mark.redis, pytest.mark.docker]


async def shown(fleet) -> str:
    [card] = await fleet.transport.workers()
    url = f"http://127.0.0.1:{card.metrics_port}/metrics"
    return await asyncio.to_thread(lambda: urllib.request.urlopen(url).read().decode())


async def until_shown(fleet, line: str) -> None:
    async with asyncio.timeout(60):
        while f"\n{line}\n" not in await shown(fleet):
            await asyncio.sleep(0.05)  # metrics have no event


def sandboxes_listed(env: dict[str, str]) -> list[str]:
    command = [Path(sys.executable).parent / "muster", "sandbox", "list"]
    return subprocess.run(command, capture_output=True, text=True, check=True, env=env).stdout.splitlines()


async def test_the_second_task_finds_its_sandbox_ready_and_is_found_by_it(start_worker, fleet, environment, tmp_path):
    worker = await start_worker(MUSTER_DRAIN_GRACE_S="0", MUSTER_WARM_SANDBOXES="1")
    first = await fleet.submit(input=TaskInput(params={"commands": ["true"]}))
    assert (await fleet.ended(first.task_id)).status is State.COMPLETED
    await until_shown(fleet, "muster_sandbox_warm_size 1.0")

    second = await fleet.submit_command("sleep 600")

    await until_shown(fleet, "muster_sandbox_warm_size 1.0")  # for the third
    metrics = await shown(fleet)
    assert "muster_sandbox_warm_hits_total 1.0" in metrics and "muster_sandbox_warm_misses_total 1.0" in metrics
    settings = WorkerSettings(state_dir=tmp_path / "state")
    async with DockerDriver(settings.state_dir, "another") as driver:
        assert await sweep(driver, settings) == []  # they have an owner who is alive
        ours = {each.sandbox_id: each.labels for each in await driver.known() if each.owner != "another"}
    listed = {line.split()[0]: line.split()[3] for line in sandboxes_listed(environment(tmp_path))}
    assert [each for each, task in listed.items() if task == second.task_id] == [
        each for each, labels in ours.items() if labels.get("task") == second.task_id
    ]
    assert second.task_id in listed.values() and "warm" in listed.values()

    worker.send_signal(signal.SIGTERM)
    _, stderr = await worker.communicate()

    assert worker.returncode == 0, stderr.decode()
    assert list((tmp_path / "state" / "sandboxes").iterdir()) == []
    await fleet.transport.cancel(second.task_id, by="test", reason="done")


async def test_what_a_killed_worker_had_ready_is_reaped_by_the_next(start_worker, fleet, tmp_path):
    worker = await start_worker(MUSTER_WARM_SANDBOXES="2")
    await fleet.ended((await fleet.submit(input=TaskInput(params={"commands": ["true"]}))).task_id)
    await until_shown(fleet, "muster_sandbox_warm_size 2.0")
    worker.send_signal(signal.SIGKILL)
    await worker.wait()

    settings = WorkerSettings(state_dir=tmp_path / "state")
    async with DockerDriver(settings.state_dir, "the-next-worker") as driver:
        gone = await sweep(driver, settings)

    assert len(gone) == 2
    assert list((settings.state_dir / "sandboxes").iterdir()) == []
