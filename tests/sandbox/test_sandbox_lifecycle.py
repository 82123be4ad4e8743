"""Opening, losing, closing and reaping."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from sandbox.base import Command, Limits, SandboxSpec
from sandbox.contract import make_project
from sandbox.driver import DockerDriver
from sandbox.errors import EngineUnavailable, ImageMissing, SandboxError, SandboxLost

pytestmark = pytest.mark.docker


Listing = Callable[[str], list[str]]


async def test_closing_removes_everything_and_twice_is_fine(
    driver: DockerDriver, image: str, owner: str, tmp_path: Path, engine_lists: Listing
):
    sandbox = await driver.open(SandboxSpec(image))
    assert len(engine_lists(owner)) == 2

    await asyncio.gather(sandbox.close(), sandbox.close())
    await sandbox.close()

    assert engine_lists(owner) == []
    assert list((tmp_path / "state" / "sandboxes").iterdir()) == []
    with pytest.raises(SandboxLost, match="closed"):
        await sandbox.exec(Command("true"))


async def test_closing_the_driver_closes_its_sandboxes(image: str, owner: str, tmp_path: Path, engine_lists: Listing):
    async with DockerDriver(tmp_path / "state", owner) as driver:
        await asyncio.gather(*(driver.open(SandboxSpec(image)) for _ in range(3)))
        assert len(engine_lists(owner)) == 6

    assert engine_lists(owner) == []


async def test_a_container_removed_during_a_command_is_a_lost_sandbox(driver: DockerDriver, image: str):
    async with await driver.open(SandboxSpec(image)) as sandbox:
        running = asyncio.Event()
        call = asyncio.create_task(sandbox.exec(Command("echo up; sleep 1000"), lambda _: running.set()))
        await running.wait()
        await asyncio.to_thread(
            subprocess.check_call, ["docker", "rm", "--force", sandbox.id], stdout=subprocess.DEVNULL
        )

        with pytest.raises(SandboxLost):
            await call
        with pytest.raises(SandboxLost):
            await sandbox.read("/etc/hostname")


async def test_a_server_that_does_not_answer_is_killed(
    driver: DockerDriver, image: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("sandbox.channel.GRACE_S", 0.3)
    async with await driver.open(SandboxSpec(image)) as sandbox:
        await asyncio.to_thread(subprocess.check_call, ["docker", "pause", sandbox.id], stdout=subprocess.DEVNULL)
        with pytest.raises(SandboxLost, match="did not answer"):
            await sandbox.exec(Command("true", timeout_s=0.1))


async def test_a_missing_image_is_said_with_a_hint(driver: DockerDriver):
    with pytest.raises(ImageMissing, match="no-such-image") as refusal:
        await driver.open(SandboxSpec("no-such-image:here"))
    assert "muster sandbox build" in refusal.value.hint


async def test_an_image_without_python_is_said(driver: DockerDriver, image: str, tmp_path: Path):
    (tmp_path / "Dockerfile").write_text(
        f"FROM {image}\nUSER root\nRUN rm -f /usr/bin/python3* /usr/local/bin/python3*\n"
    )
    environment = {**os.environ, "DOCKER_BUILDKIT": "0"}
    build = ["docker", "build", "--quiet", "--tag", "muster-test-no-python", str(tmp_path)]
    await asyncio.to_thread(subprocess.check_call, build, env=environment, stdout=subprocess.DEVNULL)
    try:
        with pytest.raises(SandboxError, match="no python3"):
            await driver.open(SandboxSpec("muster-test-no-python"))
    finally:
        subprocess.check_call(["docker", "rmi", "muster-test-no-python"], stdout=subprocess.DEVNULL)


async def test_no_engine_is_said_with_a_hint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/nobody.sock")
    async with DockerDriver(tmp_path / "state", "nobody") as driver:
        with pytest.raises(EngineUnavailable) as refusal:
            await driver.open(SandboxSpec("any"))
    assert "muster doctor" in refusal.value.hint


async def test_a_cancelled_opening_leaves_nothing(
    driver: DockerDriver, image: str, owner: str, tmp_path: Path, engine_lists: Listing
):
    openings = [asyncio.create_task(driver.open(SandboxSpec(image))) for _ in range(4)]
    while not engine_lists(owner):
        await asyncio.sleep(0)
    for opening in openings:
        opening.cancel()
    for outcome in await asyncio.gather(*openings, return_exceptions=True):
        if not isinstance(outcome, BaseException):
            await outcome.close()

    assert engine_lists(owner) == []
    assert list((tmp_path / "state" / "sandboxes").iterdir()) == []


async def test_labels_name_owner_expiry_and_what_the_caller_gave(driver: DockerDriver, image: str, owner: str):
    spec = SandboxSpec(image, labels={"task": "t1"}, limits=Limits(lifetime_s=100))
    async with await driver.open(spec) as sandbox:
        template = '{{index .Config.Labels "muster.owner"}} {{index .Config.Labels "muster.task"}} '
        template += '{{index .Config.Labels "muster.expires_at"}}'
        shown = subprocess.check_output(["docker", "inspect", "--format", template, sandbox.id], text=True).split()

    assert shown[:2] == [owner, "t1"]
    assert time.time() < int(shown[2]) < time.time() + 200


WORKER = """
import asyncio, sys
from pathlib import Path
from sandbox.base import Command, Limits, SandboxSpec
from sandbox.driver import DockerDriver

async def main(state, owner, image):
    driver = DockerDriver(Path(state), owner)
    sandbox = await driver.open(SandboxSpec(image, limits=Limits(lifetime_s=30)))
    await sandbox.exec(Command("echo; sleep 1000", timeout_s=2000), lambda _: print("open", flush=True))

asyncio.run(main(*sys.argv[1:]))
"""


@pytest.fixture
async def killed_worker(image: str, owner: str, tmp_path: Path, engine_lists: Listing) -> AsyncIterator[str]:
    """The owner name of a worker that was killed with a sandbox open."""
    name = f"{owner}-killed"
    arguments = [sys.executable, "-c", WORKER, str(tmp_path / "state"), name, image]
    worker = await asyncio.create_subprocess_exec(*arguments, stdout=asyncio.subprocess.PIPE)
    assert worker.stdout is not None
    assert await worker.stdout.readline() == b"open\n"
    worker.send_signal(signal.SIGKILL)
    await worker.wait()
    yield name
    assert engine_lists(name) == []


async def test_what_a_killed_worker_left_goes_with_its_name(driver: DockerDriver, image: str, killed_worker: str):
    [left] = [thing.name for thing in await driver.engine.volumes(f"muster.owner={killed_worker}")]
    async with await driver.open(SandboxSpec(image)) as mine:
        gone = await driver.reap(owner=killed_worker, now_s=time.time())

        assert left in gone  # and what others have left here, if its time is over
        assert mine.id not in gone
        assert (await mine.exec(Command("echo on"))).output == b"on\n"


async def test_any_worker_reaps_what_has_expired_and_nothing_else(driver: DockerDriver, image: str, killed_worker: str):
    """Others may use this engine meanwhile. Their sandboxes live for an hour: a clock two minutes ahead spares them."""
    [left] = [thing.name for thing in await driver.engine.volumes(f"muster.owner={killed_worker}")]
    assert left not in await driver.reap(now_s=time.time())
    async with await driver.open(SandboxSpec(image)) as mine:
        gone = await driver.reap(now_s=time.time() + 120)

        assert left in gone
        assert mine.id not in gone


async def test_a_dead_workers_commands_end_with_it(image: str, killed_worker: str, driver: DockerDriver):
    """Its end closes the server's input; no reaper is needed for that."""
    waiting = ["docker", "ps", "--quiet", "--filter", f"label=muster.owner={killed_worker}"]
    deadline = time.monotonic() + 30
    while subprocess.check_output(waiting) and time.monotonic() < deadline:
        await asyncio.sleep(0.05)  # the engine has no event for a client that may have seen it already

    assert subprocess.check_output(waiting) == b""
    await driver.reap(owner=killed_worker, now_s=time.time())


async def test_capabilities_say_what_holds(driver: DockerDriver):
    assert driver.capabilities().network_none
    assert "memory_bytes" in driver.capabilities().limits


async def test_a_container_that_is_gone_gives_no_patch(driver: DockerDriver, image: str, tmp_path: Path):
    """Its workspace is not mounted any more: every file would read as deleted."""
    async with await driver.open(await make_project(tmp_path, image)) as sandbox:
        await asyncio.to_thread(subprocess.check_call, ["docker", "rm", "-f", sandbox.id], stdout=subprocess.DEVNULL)
        with pytest.raises(SandboxLost):
            await sandbox.snapshot()
        with pytest.raises(SandboxLost):
            await sandbox.patch(lambda _: True)


async def test_python_first_on_the_path_is_not_what_runs_the_server(driver: DockerDriver, image: str):
    """Setup commands own /opt/venv: a python that they left there must not become PID 1."""
    spec = SandboxSpec(image, env={"PATH": "/opt/venv/bin:/usr/bin:/bin"})
    async with await driver.open(spec) as sandbox:
        result = await sandbox.exec(Command("tr '\\0' ' ' < /proc/1/cmdline; command -v python3"))

    assert result.output.startswith(b"/usr/bin/python3 -S -E ")
    assert result.output.endswith(b"/opt/venv/bin/python3\n")
