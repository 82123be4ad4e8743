"""Whoever is alive on a host removes what the dead left there: also theirs whose state folder nobody serves."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from envelope.ids import new_task_id
from repo.keeping import GIB
from sandbox.base import Command, SandboxSpec
from sandbox.bubblewrap import BubblewrapDriver
from sandbox.driver import DockerDriver
from sandbox.errors import SandboxLost
from sandbox.image import DEFAULT_IMAGE
from workers.sandboxes.collecting import collect_if_due, kept
from workers.sandboxes.elsewhere import Elsewhere
from workers.sandboxes.reaping import SWEEP_EVERY_S, sweep_host
from workers.settings import WorkerSettings

pytestmark = pytest.mark.docker

OTHER = """
import asyncio, sys
from pathlib import Path
from sandbox.base import SandboxSpec
from sandbox.choice import choose_driver
from sandbox.image import DEFAULT_IMAGE
from workers.sandboxes.owners import owned

async def main(name, state):
    with owned(Path(state) / "owners", "other"):
        sandbox = await (await choose_driver(name, Path(state), "other")).open(SandboxSpec(DEFAULT_IMAGE))
        print(sandbox.id, flush=True)
        await asyncio.sleep(600)

asyncio.run(main(*sys.argv[1:]))
"""


async def other_worker(driver: str, state_dir: Path) -> tuple[asyncio.subprocess.Process, str]:
    worker = await asyncio.create_subprocess_exec(
        sys.executable, "-c", OTHER, driver, str(state_dir), stdout=asyncio.subprocess.PIPE
    )
    assert worker.stdout
    return worker, (await worker.stdout.readline()).decode().strip()


@pytest.mark.parametrize("driver", ["docker", "bubblewrap"])
async def test_a_worker_removes_what_another_state_folders_dead_worker_left(driver: str, tmp_path: Path):
    settings = WorkerSettings(state_dir=tmp_path / "state")
    worker, left = await other_worker(driver, tmp_path / "other state")
    [folder] = (tmp_path / "other state").rglob(f"sandboxes/{left}")
    async with BubblewrapDriver(settings.state_dir, "mine") as mine:
        await sweep_host(mine, settings)
        assert folder.is_dir()  # its worker lives
        worker.send_signal(signal.SIGKILL)
        await worker.wait()

        note = tmp_path / "other state" / "owners" / "other"
        note.write_text(str(time.time() - SWEEP_EVERY_S))  # as somebody found it a sweep ago
        await sweep_host(mine, settings)

    assert not folder.exists()
    assert str(tmp_path) not in Path("/proc/mounts").read_text()
    assert subprocess.check_output(["docker", "ps", "--all", "--quiet", "--filter", f"name={left}"]) == b""
    assert note.exists()  # remembered: an engine may still be at something that it was asked for


async def test_an_hour_passes_between_two_collections(tmp_path: Path):
    settings = WorkerSettings(state_dir=tmp_path, setups_max_gib=1000, setups_max_age_days=1000)
    remains = settings.cache_dir / "mirrors" / "killed.part"
    async with BubblewrapDriver(settings.state_dir, "mine") as mine:
        for is_due in (True, False):
            remains.mkdir(parents=True)
            os.utime(remains, (0, 0))
            await collect_if_due(mine, settings)
            assert remains.exists() is not is_due


async def test_what_is_kept_is_told_with_its_limits(tmp_path: Path):
    settings = WorkerSettings(state_dir=tmp_path, repositories_max_gib=1.5, repositories_max_age_days=3)
    assert settings.repositories_allowance.max_bytes == 3 * GIB // 2
    async with DockerDriver(settings.state_dir, "mine") as mine:
        setups, repositories = await kept(mine, settings)

    assert str(repositories) == "mirrors, checkouts and bundles: 0, 0.0 GiB (at most 1.5 GiB, 3 days)"
    assert "(at most 20 GiB, 14 days)" in str(setups)


@pytest.mark.redis
async def test_a_sandbox_whose_worker_lost_its_lease_on_another_host_goes_at_the_second_look(fleet, tmp_path: Path):
    """Its lock is not to be seen here; what the store says is."""
    ended = await fleet.submit(deadline_ms=600_000)
    await fleet.transport.cancel(ended.task_id, by="test", reason="done")
    owner = f"elsewhere-{ended.task_id}"
    await fleet.submit(deadline_ms=600_000)
    [claim] = await fleet.transport.claim("build", f"{owner}-3", slots=1, wait_s=5)
    waiting = claim.lease
    await fleet.transport.hold(waiting, frozenset({"ask_1"}))
    async with (
        DockerDriver(tmp_path / "there", owner) as there,
        DockerDriver(tmp_path / "there", waiting.worker) as patient,
        DockerDriver(tmp_path / "there", f"{owner}-2") as stranger,
        DockerDriver(tmp_path / "here", f"{owner}-mine") as here,
        await there.open(SandboxSpec(DEFAULT_IMAGE, labels={"task": ended.task_id})) as forsaken,
        await stranger.open(SandboxSpec(DEFAULT_IMAGE, labels={"task": new_task_id()})) as of_another_fleet,
        await patient.open(SandboxSpec(DEFAULT_IMAGE, labels={"task": waiting.task_id})) as held,
    ):
        elsewhere = Elsewhere(here, fleet.transport, tmp_path / "here" / "owners")

        assert await elsewhere.sweep() == 0
        assert await elsewhere.sweep() == 1

        with pytest.raises(SandboxLost):
            await forsaken.exec(Command("true"))
        assert (await of_another_fleet.exec(Command("true"))).exit_code == 0
        assert (await held.exec(Command("true"))).exit_code == 0
