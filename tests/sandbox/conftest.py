"""A real engine, the real image, real repositories. Every test has a driver of its own, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import json
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

# Of the engine; what runs on Docker runs on it instead. `make soak` tries gVisor's so.
RUNTIME = os.environ.get("MUSTER_TEST_RUNTIME")
OLD_COREUTILS = "ls and stat of newer coreutils get EINVAL from its statx"
WHOLE = "the limit ends the whole sandbox, and not the command"
OPEN_SERVER = "children of the tool server can end it, read its environment and write into its output"
# What does not hold on Debian's runsc, 0.0~20221219: see docs/sandbox.md.
NOT_ON_RUNSC = {
    "a_link_out_of_the_workspace_ends_inside": "a root that cannot be written says so in other words",
    "two_sandboxes_of_one_checkout_do_not_see_each_other": OLD_COREUTILS,
    "many_commands_run_at_once": "eight that look round and round ended the sandbox once, on a busy machine",
    "a_command_is_held": OPEN_SERVER,
    "a_reply_cannot_be_forged": OPEN_SERVER,
    "pids__a_fork_bomb_is_bounded_and_ends_with_its_time": WHOLE,
    "pids__what_a_bomb_left_does_not_block_the_next_command": WHOLE,
    "pids__out_of_processes_is_said_and_passes": WHOLE,
    "memory_bytes__a_memory_bomb_kills_the_command_and_not_the_server": WHOLE,
    "tmp_bytes__temporary_space_ends_at_its_size": OLD_COREUTILS,
    "tmp_inodes__temporary_files_end_at_their_number": "its file systems in memory count no files",
    "workspace_bytes__the_workspace_ends_at_its_size_and_can_be_cleared": OLD_COREUTILS,
    "shm_inodes__files_of_shared_memory_end_at_their_number": "its file systems in memory count no files",
    "test_what_fills_up_says_so_and_can_be_cleared": WHOLE,
    "test_killing_everything_leaves_the_server": OPEN_SERVER,
    "test_a_fork_bomb_ends_with_its_time": WHOLE,
    "test_a_service_that_floods_and_many_of_them": WHOLE,
    "test_every_probe_is_refused": OPEN_SERVER,
    "test_what_cannot_be_done_is_said_and_ends_nothing": "a word that is too long is said in other words",
}
Run = Callable[..., Awaitable[ExecResult]]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items if RUNTIME == "runsc" else ():
        case = item.callspec.params.get("name", "") if isinstance(item, pytest.Function) and "[" in item.name else ""
        for name in {case, item.name.partition("[")[0]} & NOT_ON_RUNSC.keys():
            item.add_marker(pytest.mark.xfail(reason=NOT_ON_RUNSC[name], strict=False))


@pytest.fixture(scope="session")
def runtime() -> str | None:
    """Where the engine has not the one that is asked for, what needs it is skipped."""
    if RUNTIME:
        told = subprocess.check_output(["docker", "info", "--format", "{{json .Runtimes}}"], text=True)
        if RUNTIME not in json.loads(told):
            pytest.skip(f"the engine has no runtime {RUNTIME}: see docs/sandbox.md")
    return RUNTIME


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
async def driver(
    tmp_path: Path, owner: str, runtime: str | None, engine_lists: Callable[[str], list[str]]
) -> AsyncIterator[DockerDriver]:
    async with DockerDriver(tmp_path / "state", owner, runtime) as opened:
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
