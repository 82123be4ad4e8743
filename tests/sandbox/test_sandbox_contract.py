"""Every driver keeps what `sandbox.contract` says of them all."""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path

import pytest

from sandbox.base import Command, Sandbox, SandboxSpec, Setup
from sandbox.bubblewrap import BubblewrapDriver
from sandbox.cgroup import group_of
from sandbox.contract import CASES, cases_for, make_project, staged
from sandbox.driver import DockerDriver
from sandbox.pool import WarmPool

pytestmark = [pytest.mark.docker, pytest.mark.usefixtures("private_files")]


@pytest.mark.parametrize("name", CASES)
async def test_docker_keeps_the_contract(driver: DockerDriver, image: str, name: str):
    async with staged(driver, image) as stage:
        await CASES[name](stage)


@pytest.mark.parametrize("name", CASES)
async def test_bubblewrap_keeps_the_contract(bubblewrap: BubblewrapDriver, root_folder: str, name: str):
    async with staged(bubblewrap, root_folder) as stage:
        await CASES[name](stage)


class AlwaysReady(WarmPool):
    """Not even the first is opened for whoever asks; and none for a next, which no case has."""

    async def open(self, spec: SandboxSpec) -> Sandbox:
        if not spec.egress:
            await self.warm(spec)
        sandbox = await super().open(spec)
        for shelf in self._shelves:
            assert shelf.filling is not None
            shelf.filling.cancel()
        return sandbox


class Hits:
    def warm_standing(self, count: int) -> None: ...

    def warm_asked(self, *, hit: bool) -> None:
        assert hit


@pytest.mark.parametrize("name", CASES)
async def test_one_that_stood_ready_keeps_the_contract(driver: DockerDriver, image: str, name: str):
    pool = AlwaysReady(driver, 1, Hits())
    async with staged(pool, image) as stage:
        await CASES[name](stage)
    await pool.close()


@pytest.mark.parametrize("name", CASES)
async def test_a_namespace_that_stood_ready_keeps_the_contract(
    bubblewrap: BubblewrapDriver, root_folder: str, name: str
):
    pool = AlwaysReady(bubblewrap, 1, Hits())
    async with staged(pool, root_folder) as stage:
        await CASES[name](stage)
    await pool.close()


@pytest.mark.parametrize("kind", [DockerDriver, BubblewrapDriver])
async def test_a_driver_claims_all_of_it(kind: type, tmp_path: Path, owner: str):
    async with kind(tmp_path, owner) as driver:
        assert cases_for(driver) == list(CASES)


WORKER = """
import asyncio, sys
from pathlib import Path
from sandbox.base import Command, SandboxSpec
from sandbox.bubblewrap import BubblewrapDriver

async def main(state, owner, image):
    driver = BubblewrapDriver(Path(state), owner)
    sandbox = await driver.open(SandboxSpec(image))
    await sandbox.exec(Command("echo; setsid sleep 1000", timeout_s=2000), lambda _: print(sandbox.id, flush=True))

asyncio.run(main(*sys.argv[1:]))
"""


async def test_what_a_killed_worker_left_of_namespaces_goes_with_its_name(
    bubblewrap: BubblewrapDriver, root_folder: str, owner: str, tmp_path: Path
):
    arguments = [sys.executable, "-c", WORKER, str(tmp_path / "state"), f"{owner}-killed", root_folder]
    worker = await asyncio.create_subprocess_exec(*arguments, stdout=asyncio.subprocess.PIPE)
    assert worker.stdout is not None
    left = (await worker.stdout.readline()).decode().strip()
    worker.kill()
    await worker.wait()
    async with await bubblewrap.open(SandboxSpec(root_folder)) as mine:
        assert await bubblewrap.reap(now_s=time.time()) == []
        assert await bubblewrap.reap(owner=f"{owner}-killed", now_s=time.time()) == [left]
        assert (await mine.exec(Command("echo on"))).output == b"on\n"

    assert not any(folder.exists() for folder in group_of(left).folders.values())


async def test_setup_adds_a_layer_to_a_folder_and_leaves_the_folder_alone(
    bubblewrap: BubblewrapDriver, root_folder: str, tmp_path: Path
):
    project = await make_project(tmp_path / "project", root_folder)
    assert project.checkout is not None
    setup = Setup(root_folder, project.checkout, project.base, "key", ("touch /opt/venv/added",), frozenset())

    image = await bubblewrap.prepare_image(setup)
    assert await bubblewrap.prepare_image(setup) == image
    async with await bubblewrap.open(SandboxSpec(image)) as sandbox:
        seen = await sandbox.exec(Command("ls /opt/venv/added; touch /opt/venv/more; git --version"))

    assert seen.output.startswith(b"/opt/venv/added\n")
    assert b"Read-only file system" in seen.output and b"git version" in seen.output
    assert not (Path(root_folder) / "opt/venv/added").exists()
