"""A real engine, the real image, real repositories. Every test has a driver of its own, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from sandbox.base import Command, ExecResult, SandboxSpec
from sandbox.bubblewrap import BubblewrapDriver
from sandbox.contract import make_project
from sandbox.driver import DockerDriver
from sandbox.image.build import build_image
from sandbox.opened import OpenSandbox

Run = Callable[..., Awaitable[ExecResult]]


@pytest.fixture
def private_files() -> Iterator[None]:
    """As in every program of ours that serves (`transport/state_folder.py`)."""
    before = os.umask(0o077)
    yield
    os.umask(before)


@pytest.fixture(scope="session")
def image() -> str:
    """The image as it is shipped; built only where it is missing."""
    tag = "muster-sandbox:latest"
    asyncio.run(build_image(tag))
    return tag


@pytest.fixture
def owner() -> str:
    return f"test-{uuid.uuid4().hex}"


@pytest.fixture
async def driver(tmp_path: Path, owner: str, engine_lists: Callable[[str], list[str]]) -> AsyncIterator[DockerDriver]:
    async with DockerDriver(tmp_path / "state", owner) as opened:
        yield opened
    assert engine_lists(owner) == []
    assert list((tmp_path / "state").glob("sandboxes/*")) == []
    assert str(tmp_path) not in Path("/proc/mounts").read_text()


@pytest.fixture(scope="session")
def root_folder(image: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The image's files, as a folder."""
    folder = tmp_path_factory.mktemp("root")
    folder.chmod(0o755)
    name = subprocess.check_output(["docker", "create", image, "true"], text=True).strip()
    try:
        export = subprocess.Popen(["docker", "export", name], stdout=subprocess.PIPE)
        subprocess.check_call(["tar", "-x", "-C", str(folder)], stdin=export.stdout)
        assert export.wait() == 0
    finally:
        subprocess.check_call(["docker", "rm", name], stdout=subprocess.DEVNULL)
    return str(folder)


@pytest.fixture
async def bubblewrap(tmp_path: Path, owner: str) -> AsyncIterator[BubblewrapDriver]:
    async with BubblewrapDriver(tmp_path / "state", owner) as opened:
        yield opened
    assert list((tmp_path / "state" / "bubblewrap").glob("sandboxes/*")) == []
    assert str(tmp_path) not in Path("/proc/mounts").read_text()


@pytest.fixture
async def sandbox(driver: DockerDriver, image: str) -> AsyncIterator[OpenSandbox]:
    async with await driver.open(SandboxSpec(image)) as opened:
        yield opened


@pytest.fixture
def run(sandbox: OpenSandbox) -> Run:
    async def run_in_sandbox(command: str, **options: object) -> ExecResult:
        return await sandbox.exec(Command(command, **options))  # pyright: ignore[reportArgumentType]

    return run_in_sandbox


@pytest.fixture
def engine_lists(engine_holds: Callable[[str, str], list[str]]) -> Callable[[str], list[str]]:
    """Names an owner's containers and volumes."""
    return lambda owner: [
        name for kind in ("containers", "volumes") for name in engine_holds(kind, f"muster.owner={owner}")
    ]


SETTING_UP = """
import asyncio, sys
from pathlib import Path
from sandbox.base import Setup
from sandbox.bubblewrap import BubblewrapDriver
from sandbox.driver import DockerDriver

async def main(kind, state, owner, image, checkout, base):
    make = DockerDriver if kind == "docker" else BubblewrapDriver
    commands = ("echo under way > /opt/venv/mark; echo under way > mark.log; echo under way; sleep 1000",)
    setup = Setup(image, Path(checkout), base, owner, commands, frozenset())
    await make(Path(state), owner).prepare_image(setup, lambda chunk: print(chunk.decode(), flush=True))

asyncio.run(main(*sys.argv[1:]))
"""


@pytest.fixture
def kill_in_setup() -> Callable[[str, SandboxSpec, Path, str], Awaitable[None]]:
    """A worker of this driver, state folder and name is killed while a setup command of its runs."""

    async def kill(kind: str, project: SandboxSpec, state_dir: Path, owner: str) -> None:
        words = [kind, state_dir, owner, project.image, project.checkout, project.base]
        argv = [sys.executable, "-c", SETTING_UP, *map(str, words)]
        worker = await asyncio.create_subprocess_exec(*argv, stdout=asyncio.subprocess.PIPE)
        assert worker.stdout is not None
        assert await worker.stdout.readline() == b"under way\n"
        worker.kill()
        await worker.wait()

    return kill


@pytest.fixture
async def project(tmp_path: Path, image: str) -> SandboxSpec:
    return await make_project(tmp_path, image)
