"""The setup phase: real installs, a real index, an image that keeps only what was installed."""

from __future__ import annotations

import asyncio
import os
import subprocess
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from repo.keeping import DAY_S, IN_USE_S, Allowance
from repo.removal import remove_tree
from sandbox import setup as setups
from sandbox.base import MIB, Command, SandboxSpec, Setup, SetupLimits
from sandbox.bubblewrap import BubblewrapDriver
from sandbox.contract import make_project, staged
from sandbox.contract.setups import (
    BOUNDS,
    a_root_is_kept_as_setup_left_it,
    a_tenant_keeps_so_many_setups,
    setup_files_are_in_every_sandbox_and_in_no_patch,
    setups_end_at_their_bounds,
)
from sandbox.driver import DockerDriver
from sandbox.errors import DiskFull, ImageMissing, SetupFailed
from sandbox.index import host_index
from sandbox.setup import owner_of, setup_tag

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


def test_what_the_releases_kept_that_let_one_user_alone_read_it_is_made_again():
    """Sandboxes are other users since then. The name is one of theirs."""
    before = "muster-setup:e3b0c44298fc1c14-33cfe4e9d4f547a17a2c2ddbdac8e364"
    tag = setup_tag("sha256:1", Setup("image", Path("/checkout"), "commit", "key", ("true",)))

    assert (owner_of(tag), tag == before) == (owner_of(before), False)


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
    assert list(bubblewrap.state_dir.glob("locks/muster-setup-*")) == []


@pytest.fixture(params=["docker", "bubblewrap"])
def place(request: pytest.FixtureRequest) -> tuple[DockerDriver | BubblewrapDriver, str]:
    """A driver, and what it calls the image."""
    fixtures = {"docker": ("driver", "image"), "bubblewrap": ("bubblewrap", "root_folder")}
    driver, image = (request.getfixturevalue(name) for name in fixtures[request.param])
    return driver, image


async def discard(driver: DockerDriver | BubblewrapDriver, images: set[str]) -> None:
    if isinstance(driver, DockerDriver):
        for image in images:
            await driver.engine.discard(image)


async def test_a_setup_that_goes_beyond_its_bounds_fails_and_nothing_is_kept(
    place: tuple[DockerDriver | BubblewrapDriver, str], owner: str
):
    async with staged(*place) as stage:
        await setups_end_at_their_bounds(stage, owner)


async def test_a_host_without_loop_devices_holds_what_setup_writes_in_memory(
    place: tuple[DockerDriver | BubblewrapDriver, str],
    project: SandboxSpec,
    owner: str,
    monkeypatch: pytest.MonkeyPatch,
):
    for module in ("driver", "bubblewrap", "workspace"):
        monkeypatch.setattr(f"sandbox.{module}.held_limits", frozenset)
    driver, image = place
    assert project.checkout is not None
    commands = ("echo made > /opt/venv/mark", "head -c 20000000 /dev/zero > /opt/venv/large")
    setup = Setup(image, project.checkout, project.base, owner, commands, frozenset(), limits=BOUNDS)
    with pytest.raises(SetupFailed, match=r"large` left no room in .*: a setup may write 8\.0 MiB") as failure:
        await driver.prepare_image(setup)
    assert "in memory" in failure.value.hint

    made = await driver.prepare_image(replace(setup, commands=commands[:1]))
    async with await driver.open(replace(project, image=made)) as sandbox:
        assert await sandbox.read("/opt/venv/mark") == b"made\n"
    await discard(driver, {made})


async def test_a_root_is_kept_as_setup_left_it(place: tuple[DockerDriver | BubblewrapDriver, str], owner: str):
    async with staged(*place) as stage:
        made = await a_root_is_kept_as_setup_left_it(stage, owner)
    await discard(place[0], {made})


async def test_setups_of_a_tenant_make_room_for_one_another(
    place: tuple[DockerDriver | BubblewrapDriver, str], owner: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(setups, "OPENING_S", 0)
    async with staged(*place) as stage:
        made = await a_tenant_keeps_so_many_setups(stage, owner)
    await discard(place[0], made)


async def test_of_a_worker_that_was_killed_in_a_setup_nothing_is_left(
    place: tuple[DockerDriver | BubblewrapDriver, str],
    project: SandboxSpec,
    owner: str,
    tmp_path: Path,
    engine_lists: Callable[[str], list[str]],
    kill_in_setup: Callable[[str, SandboxSpec, Path, str], Awaitable[None]],
):
    driver, image = place
    await kill_in_setup(driver.name, replace(project, image=image), tmp_path / "state", f"{owner}-killed")

    assert await driver.reap(owner=f"{owner}-killed", now_s=time.time()) != []

    assert engine_lists(f"{owner}-killed") == []
    assert str(tmp_path) not in Path("/proc/mounts").read_text()
    assert [
        path for name in ("sandboxes", "images", "setup-files") for path in (driver.state_dir / name).glob("*")
    ] == []


async def made_by(tenant: str, driver: BubblewrapDriver, project: SandboxSpec, size: int, limits: SetupLimits) -> str:
    assert project.checkout is not None
    commands = (f"head -c {size} /dev/urandom > /opt/venv/mark",)
    setup = Setup(
        project.image, project.checkout, project.base, tenant, commands, frozenset(), tenant=tenant, limits=limits
    )
    return await driver.prepare_image(setup)


async def test_setups_of_a_tenant_take_so_many_bytes_and_those_in_use_stay(
    bubblewrap: BubblewrapDriver, root_folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(setups, "OPENING_S", 0)
    project = await make_project(tmp_path / "project", root_folder)
    make = partial(made_by, driver=bubblewrap, project=project, limits=SetupLimits(kept_bytes=5 * MIB))
    first, second = await make("one", size=2 * MIB), await make("one", size=2 * MIB + 1)
    async with await bubblewrap.open(replace(project, image=first)):
        third = await make("one", size=2 * MIB + 2)
        assert {each.name for each in await bubblewrap.setups()} == {first, third}
        async with await bubblewrap.open(replace(project, image=third)):
            with pytest.raises(DiskFull, match="all in use") as full:
                await make("one", size=2 * MIB + 3)
            assert "setups_max_gib_per_tenant" in full.value.hint
            other = await make("two", size=2 * MIB)
    with pytest.raises(SetupFailed, match="more than is kept of a tenant"):
        await make("one", size=6 * MIB)
    assert {each.name for each in await bubblewrap.setups()} == {first, third, other}
    assert second not in (first, third)

    # Of all that is kept here, it is the one who has most that gives way.
    later_s = time.time() + IN_USE_S + 1
    gone = await bubblewrap.collect(Allowance(max_age_s=DAY_S, max_bytes=5 * MIB), now_s=later_s)
    assert [each.name for each in gone] == [first]


async def test_nothing_goes_that_is_about_to_be_opened(bubblewrap: BubblewrapDriver, root_folder: str, tmp_path: Path):
    project = await make_project(tmp_path / "project", root_folder)
    make = partial(made_by, driver=bubblewrap, project=project, limits=SetupLimits(kept=1))
    first = await make("one", size=1)
    with pytest.raises(DiskFull, match="all in use"):
        await make("one", size=2)
    files = bubblewrap.state_dir / "setup-files"
    for stamp in (files / first.partition(":")[2] / "of", *(bubblewrap.state_dir / "images").glob("*/base")):
        os.utime(stamp, (0, 0))

    second = await make("one", size=2)

    assert [each.name for each in await bubblewrap.setups()] == [second]
    assert [each.name for each in files.iterdir()] == [second.partition(":")[2]]


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
