"""The setup phase: real installs, a real index, an image that keeps only what was installed."""

from __future__ import annotations

import asyncio
import os
import subprocess
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from repo.keeping import IN_USE_S, Allowance
from repo.removal import remove_tree
from sandbox.base import Command, SandboxSpec, Setup
from sandbox.bubblewrap import BubblewrapDriver
from sandbox.contract import make_project, staged
from sandbox.contract.setups import setup_files_are_in_every_sandbox_and_in_no_patch
from sandbox.driver import DockerDriver
from sandbox.errors import ImageMissing, SetupFailed
from sandbox.index import host_index
from sandbox.setup import setup_tag

pytestmark = [pytest.mark.docker, pytest.mark.usefixtures("private_files")]


class ProjectSetup:
    """`prepare_image` for the project, under a key of this test's own."""

    def __init__(self, driver: DockerDriver, project: SandboxSpec, key: str) -> None:
        self.driver, self.project, self.key = driver, project, key
        self.tags: set[str] = set()
        self.output = b""

    def of(self, *commands: str) -> Setup:
        assert self.project.checkout is not None
        return Setup(self.project.image, self.project.checkout, self.project.base, self.key, commands)

    async def __call__(self, *commands: str) -> str:
        tag = await self.driver.prepare_image(self.of(*commands), self.listen)
        self.tags.add(tag)
        return tag

    def listen(self, chunk: bytes) -> None:
        self.output += chunk


@pytest.fixture
async def setup(driver: DockerDriver, project: SandboxSpec, owner: str) -> AsyncIterator[ProjectSetup]:
    setup = ProjectSetup(driver, project, owner)
    yield setup
    for tag in setup.tags - {project.image}:
        subprocess.check_call(["docker", "rmi", "--force", tag], stdout=subprocess.DEVNULL)


async def test_what_setup_installs_is_there_for_tasks_without_a_network(setup: ProjectSetup, driver: DockerDriver):
    tag = await setup("pip install six==1.17.0", "python -c 'import six'")
    assert b"Successfully installed six" in setup.output

    async with await driver.open(replace(setup.project, image=tag)) as sandbox:
        result = await sandbox.exec(Command("python -c 'import six; print(six.__version__)'; cat src/other.py"))
        assert result.output == b"1.17.0\nx = 1\n"
        assert (await sandbox.exec(Command("touch /opt/venv/x"))).exit_code != 0


async def test_nothing_of_the_way_out_is_left_in_the_image(setup: ProjectSetup, driver: DockerDriver):
    tag = await setup("pip install six==1.17.0 && env | grep -qi proxy")
    hosts = (await host_index()).hosts

    saved = subprocess.check_output(["docker", "inspect", tag], text=True)
    assert "PROXY" not in saved.upper()
    async with await driver.open(replace(setup.project, image=tag)) as sandbox:
        seen = (await sandbox.exec(Command("env; pip config list; ls /run/muster-egress; ps -e"))).output.decode()
    assert "proxy" not in seen.lower()
    assert not any(host in seen + saved for host in hosts)
    assert os.environ.get("PIP_CERT", "no such setting") not in seen + saved


async def test_the_same_setup_runs_once_however_many_ask(setup: ProjectSetup):
    first, second = await asyncio.gather(setup("echo ran"), setup("echo ran"))
    third = await setup("echo ran")

    assert first == second == third
    assert setup.output == b"ran\n"
    assert await setup("echo ran; true") != first


async def test_without_commands_the_image_is_its_own_setup(setup: ProjectSetup):
    assert await setup() == setup.project.image


async def test_a_failing_command_is_told_and_nothing_is_kept(setup: ProjectSetup, driver: DockerDriver):
    with pytest.raises(SetupFailed, match="exit code 3") as failure:
        await setup("echo before", "echo about to fail; exit 3", "echo never")

    assert str(failure.value).endswith("ended with exit code 3: about to fail")
    assert failure.value.output == "about to fail\n"
    assert b"never" not in setup.output
    image_id = await driver.engine.image_id(setup.project.image) or ""
    tag = setup_tag(image_id, setup.of("echo before", "echo about to fail; exit 3", "echo never"))
    assert await driver.engine.image_id(tag) is None


async def test_a_program_that_the_image_lacks_is_told_with_what_to_do(setup: ProjectSetup):
    with pytest.raises(SetupFailed, match="exit code 127") as failure:
        await setup("no-such-program fetch")

    assert "no-such-program" in failure.value.output
    assert "MUSTER_IMAGE" in failure.value.hint


async def test_setup_reaches_the_index_and_nothing_else(setup: ProjectSetup):
    ask = "import urllib.request as r; r.urlopen('https://elsewhere.example/')"
    with pytest.raises(SetupFailed) as failure:
        await setup(f'python3 -c "{ask}"')

    assert "403" in failure.value.output
    assert "elsewhere.example:443" in failure.value.hint


async def test_setup_is_nobody_special_and_has_no_interface(setup: ProjectSetup):
    await setup("id -u; ls /sys/class/net; grep CapEff /proc/self/status | tr -d '\\t'; touch /usr/x || echo refused")

    assert setup.output.splitlines()[:3] == [b"10001", b"lo", b"CapEff:0000000000000000"]
    assert setup.output.endswith(b"refused\n")


async def test_what_setup_changes_of_the_repository_is_thrown_away(setup: ProjectSetup, driver: DockerDriver):
    tag = await setup("echo changed > src/other.py; pip --version")
    async with await driver.open(replace(setup.project, image=tag)) as sandbox:
        assert await sandbox.read("/workspace/src/other.py") == b"x = 1\n"


async def test_what_setup_writes_and_git_ignores_is_kept(driver: DockerDriver, image: str, owner: str):
    async with staged(driver, image) as stage:
        made = await setup_files_are_in_every_sandbox_and_in_no_patch(stage, owner)
    subprocess.check_call(["docker", "rmi", "--force", made], stdout=subprocess.DEVNULL)


async def test_what_setup_writes_and_git_ignores_is_kept_without_an_engine(
    bubblewrap: BubblewrapDriver, root_folder: str, owner: str
):
    async with staged(bubblewrap, root_folder) as stage:
        await setup_files_are_in_every_sandbox_and_in_no_patch(stage, owner)
    later_s = time.time() + IN_USE_S + 1
    [_] = await bubblewrap.collect(Allowance(max_age_s=0, max_bytes=0), now_s=later_s)
    assert list(bubblewrap.state_dir.glob("setup-files/*")) == []


async def test_who_takes_a_turn_after_others_finds_what_setup_wrote(
    bubblewrap: BubblewrapDriver, root_folder: str, owner: str, tmp_path: Path
):
    project = await make_project(tmp_path / "project", root_folder)
    assert project.checkout is not None
    setup = Setup(root_folder, project.checkout, project.base, owner, ("echo setup > made.log",), frozenset())
    image = await bubblewrap.prepare_image(setup)
    async with await bubblewrap.open(replace(project, image=image, reusable=True)) as sandbox:
        await sandbox.exec(Command("echo first > made.log; echo first > other.log"))
        await sandbox.renew(labels={})
        assert (await sandbox.exec(Command("cat *.log"))).output == b"setup\n"


async def test_a_setup_whose_files_are_gone_runs_again(
    bubblewrap: BubblewrapDriver, root_folder: str, owner: str, tmp_path: Path
):
    """As of an older version, which kept none."""
    project = await make_project(tmp_path / "project", root_folder)
    assert project.checkout is not None
    setup = Setup(root_folder, project.checkout, project.base, owner, ("echo setup > made.log",), frozenset())
    image = await bubblewrap.prepare_image(setup)
    [files] = bubblewrap.state_dir.glob("setup-files/*")
    remove_tree(files)

    assert await bubblewrap.prepare_image(setup) == image
    async with await bubblewrap.open(replace(project, image=image)) as sandbox:
        assert (await sandbox.exec(Command("cat made.log"))).output == b"setup\n"


async def test_a_missing_image_is_said(setup: ProjectSetup):
    setup.project = replace(setup.project, image="no-such-image:here")
    with pytest.raises(ImageMissing):
        await setup("true")


async def test_a_task_with_egress_gets_the_same_way_out(driver: DockerDriver, image: str):
    index = await host_index()
    async with await driver.open(SandboxSpec(image, egress=index.hosts)) as sandbox:
        ask = Command("pip download --no-deps --dest /tmp six==1.17.0", env=index.env, timeout_s=120)
        first = await sandbox.exec(ask)
        assert first.exit_code == 0, first.output
        assert (await sandbox.exec(Command("sleep 1000", timeout_s=0.2))).timed_out
        assert (await sandbox.exec(ask)).exit_code == 0  # the relay is the server's own, so no sweep ends it
