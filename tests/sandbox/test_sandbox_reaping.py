"""What is left when somebody dies at the worst moment, and what is kept for the next."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path

import pytest
from lab.cut import Way

from repo.cache import collect_repositories
from repo.keeping import DAY_S, Allowance
from sandbox.base import Command, SandboxSpec, Setup
from sandbox.bubblewrap import BubblewrapDriver
from sandbox.card import Card, write_card
from sandbox.cgroup import group_of
from sandbox.driver import DockerDriver
from sandbox.errors import EngineUnavailable
from sandbox.homes import folders_with_sandboxes

pytestmark = pytest.mark.docker

ENGINE = Path("/var/run/docker.sock")
NOTHING = Allowance(max_age_s=DAY_S, max_bytes=0)
IN_A_YEAR_S = 365 * DAY_S
Listing = Callable[[str], list[str]]

FREEZER = """
import asyncio, sys
from pathlib import Path
from sandbox.base import Command, SandboxSpec
from sandbox.choice import choose_driver

async def main(name, state, owner, image):
    driver = await choose_driver(name, Path(state), owner)
    sandbox = await driver.open(SandboxSpec(image))
    await sandbox.exec(Command("(setsid sleep 600 &)"))
    await sandbox._keeper.freeze()
    print(sandbox.id, flush=True)
    await asyncio.sleep(600)

asyncio.run(main(*sys.argv[1:]))
"""


async def killed_while_frozen(driver: str, state_dir: Path, owner: str, image: str) -> str:
    """The id of a sandbox whose worker was killed in the middle of a snapshot."""
    arguments = [sys.executable, "-c", FREEZER, driver, str(state_dir), owner, image]
    worker = await asyncio.create_subprocess_exec(*arguments, stdout=asyncio.subprocess.PIPE)
    assert worker.stdout is not None
    sandbox_id = (await worker.stdout.readline()).decode().strip()
    worker.send_signal(signal.SIGKILL)
    await worker.wait()
    return sandbox_id


def is_alive(pid: int) -> bool:
    """One that has ended may wait for its parent, which is this host's first process now."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


async def test_a_container_that_was_left_frozen_goes(
    driver: DockerDriver, image: str, owner: str, engine_lists: Listing
):
    left = await killed_while_frozen("docker", driver.state_dir, f"{owner}-dead", image)
    assert left in [each.sandbox_id for each in await driver.known()]

    assert await driver.reap(owner=f"{owner}-dead", now_s=time.time()) == [left]

    assert engine_lists(f"{owner}-dead") == []


async def test_a_namespace_that_was_left_frozen_goes(bubblewrap: BubblewrapDriver, image: str, owner: str):
    left = await killed_while_frozen("bubblewrap", bubblewrap.state_dir.parent, f"{owner}-dead", image)
    groups = list(group_of(left).folders.values())
    processes = [int(pid) for pid in (groups[0] / "cgroup.procs").read_text().split()]
    assert len(processes) > 1 and bubblewrap.state_dir in folders_with_sandboxes()

    assert await bubblewrap.reap(owner=f"{owner}-dead", now_s=time.time()) == [left]

    assert [group for group in groups if group.exists()] == []
    async with asyncio.timeout(30):
        while any(is_alive(pid) for pid in processes):
            await asyncio.sleep(0.01)  # a process leaves its group before it has ended


async def test_a_sandbox_of_which_there_is_only_a_folder_goes_with_its_owner(driver: DockerDriver):
    """Its worker died before the engine heard of it, or after it had forgotten it."""
    folder = driver.state_dir / "sandboxes" / "muster-half"
    folder.mkdir(parents=True)
    write_card(folder, Card("dead", int(time.time()) + 3600, {"task": "t1"}))
    assert [(each.sandbox_id, each.labels) for each in await driver.known() if each.owner == "dead"] == [
        ("muster-half", {"task": "t1"})
    ]

    assert await driver.reap(now_s=time.time()) == []
    assert await driver.reap(owner="dead", now_s=time.time()) == ["muster-half"]


async def test_one_that_cannot_be_removed_keeps_no_other(bubblewrap: BubblewrapDriver):
    sandboxes = bubblewrap.state_dir / "sandboxes"
    for name in ("muster-a", "muster-b", "muster-c"):
        (sandboxes / name / "busy").mkdir(parents=True)
        write_card(sandboxes / name, Card("dead", int(time.time()) + 3600, {}))
    subprocess.check_call(["mount", "-t", "tmpfs", "tmpfs", str(sandboxes / "muster-b" / "busy")])
    try:
        with pytest.raises(OSError, match="busy"):
            await bubblewrap.reap(owner="dead", now_s=time.time())
        assert [each.name for each in sandboxes.iterdir()] == ["muster-b"]
    finally:
        subprocess.check_call(["umount", str(sandboxes / "muster-b" / "busy")])

    assert await bubblewrap.reap(owner="dead", now_s=time.time()) == ["muster-b"]


async def test_what_could_not_be_removed_on_closing_goes_with_the_next_sweep(
    driver: DockerDriver, image: str, owner: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine_lists: Listing
):
    """Its worker lives, and the engine did not answer for a while."""
    socket = tmp_path / "engine.sock"
    monkeypatch.setenv("DOCKER_HOST", f"unix://{socket}")
    way = Way(ENGINE)
    await way.open(socket)
    mine = DockerDriver(driver.state_dir, f"{owner}-mine")
    sandbox = await mine.open(SandboxSpec(image))
    await way.close()
    with pytest.raises(EngineUnavailable):
        await sandbox.close()
    monkeypatch.delenv("DOCKER_HOST")
    assert engine_lists(f"{owner}-mine") != []

    socket.unlink(missing_ok=True)
    await way.open(socket)
    assert sandbox.id in await mine.reap(now_s=time.time())

    assert engine_lists(f"{owner}-mine") == []
    await mine.close()
    await way.close()


@pytest.fixture
async def setup(driver: DockerDriver, project: SandboxSpec, owner: str) -> AsyncIterator[str]:
    """An image that a setup has made, and whose name is this test's own."""
    assert project.checkout is not None
    commands = (f"echo {owner} > /opt/venv/mark", "head -c 3000000 /dev/urandom > /opt/venv/large")
    image = await driver.prepare_image(Setup(project.image, project.checkout, project.base, owner, commands))
    yield image
    await asyncio.to_thread(subprocess.call, ["docker", "rmi", "--force", image], stderr=subprocess.DEVNULL)


async def test_an_engine_knows_what_a_setup_takes_and_when_it_was_used(driver: DockerDriver, setup: str):
    [before] = [each for each in await driver.setups() if each.name == setup]
    assert 3_000_000 <= before.size_bytes < 6_000_000
    assert time.time() - 600 < before.used_at_s <= time.time()

    await driver.engine.stamp(setup)

    [after] = [each for each in await driver.setups() if each.name == setup]
    assert after.used_at_s >= before.used_at_s


async def test_a_setup_that_a_sandbox_uses_stays(driver: DockerDriver, setup: str, project: SandboxSpec):
    async with await driver.open(replace(project, image=setup)):
        assert not await driver.engine.discard(setup)
        assert await driver.engine.image_id(setup) is not None

    assert await driver.engine.discard(setup)
    assert await driver.engine.image_id(setup) is None


async def test_nothing_of_this_hosts_installers_is_left_in_a_setup(
    driver: DockerDriver, project: SandboxSpec, owner: str
):
    """Neither pip's nor apt's settings, nor what they would have kept for the next time."""
    assert project.checkout is not None
    looks = "pip config list; ls -A /etc/apt/apt.conf.d /etc/apt/sources.list.d ~ /tmp; env -u MUSTER_CALL | sort"
    async with await driver.open(project) as before:
        bare = (await before.exec(Command(looks))).output
    setup = Setup(project.image, project.checkout, project.base, owner, ("pip install six==1.17.0",))
    image = await driver.prepare_image(setup)
    try:
        async with await driver.open(replace(project, image=image)) as after:
            assert (await after.exec(Command(looks))).output == bare
        shown = json.loads(subprocess.check_output(["docker", "inspect", image, project.image]))
        kept, base = ({*each["Config"]["Env"]} for each in shown)
        assert kept - base <= {"HOME=/home/agent"}
    finally:
        subprocess.check_call(["docker", "rmi", image], stdout=subprocess.DEVNULL)


async def test_what_is_kept_goes_when_it_is_old_and_nobody_uses_it(
    tmp_path: Path, root_folder: str, owner: str, project: SandboxSpec
):
    """Setups and repositories alike, with a driver whose images are its own."""
    assert project.checkout is not None and project.git_dir is not None
    cache = project.git_dir.parent.parent
    for lock in cache.rglob("*.lock"):
        os.utime(lock, (0, 0))
    async with BubblewrapDriver(tmp_path / "state", owner) as mine:
        order = Setup(root_folder, project.checkout, project.base, owner, ("echo here > /opt/venv/mark",))
        made = await mine.prepare_image(order)
        [kept] = await mine.setups()
        assert kept.name == made and await mine.collect(NOTHING, now_s=time.time()) == []
        later_s = time.time() + IN_A_YEAR_S

        async with await mine.open(replace(project, image=made)):
            assert await mine.collect(NOTHING, now_s=later_s) == []
            assert await collect_repositories(cache, NOTHING, now_s=later_s) == []

        assert await mine.collect(NOTHING, now_s=later_s) == [kept]
        assert len(await collect_repositories(cache, NOTHING, now_s=later_s)) == 2
        assert await mine.setups() == []


async def test_no_sandbox_holds_what_another_has_mounted(bubblewrap: BubblewrapDriver):
    """Else its loop devices would stay for as long as the other lives. Nor has this host what one was made from."""
    spec = SandboxSpec("host")
    async with await bubblewrap.open(spec) as first, await bubblewrap.open(spec) as second:
        here = Path("/proc/self/mountinfo").read_text()
        assert "/mnt/workspace" not in here
        for own, other in ((first, second), (second, first)):
            launcher, *inside = group_of(own.id).entrances[0].read_text().split()
            assert inside and other.id in here
            seen = [Path(f"/proc/{pid}/mountinfo").read_text() for pid in (launcher, *inside)]
            assert "/mnt/workspace" in seen[0]
            assert not any(other.id in mounts for mounts in seen)
            held = await own.exec(Command("readlink /proc/self/fd/* /proc/1/fd/*"))
            assert b"pipe:" in held.output and b"mnt:" not in held.output
