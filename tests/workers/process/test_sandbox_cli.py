"""`muster sandbox shell`, `doctor` and `build`, as an operator calls them."""

from __future__ import annotations

import asyncio
import os
import pty
import subprocess
import sys
import uuid
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from envelope.errors import ExitCode
from envelope.lifecycle import State
from sandbox.base import Command, Sandbox, SandboxSpec
from sandbox.bubblewrap import BubblewrapDriver
from sandbox.driver import DockerDriver

pytestmark = pytest.mark.docker

MUSTER = (sys.executable, "-m", "orchestrator.cli.main", "sandbox")
SCREEN_LINES = 24
LOOK = "id -g; pwd; cat told; touch mine; touch /etc/mine 2>/dev/null || echo held; exit 7\n"


async def muster(*words: str, env: dict[str, str], said: str = "") -> subprocess.CompletedProcess[str]:
    command = [*MUSTER, *words]
    return await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, env=env, input=said)


@dataclass(frozen=True)
class Standing:
    """A sandbox of a task, and the operator's environment beside it."""

    task: str
    sandbox: Sandbox
    env: dict[str, str]


@pytest.fixture(params=["docker", "bubblewrap"])
async def standing(
    request: pytest.FixtureRequest, environment: Any, image: str, tmp_path: Path
) -> AsyncIterator[Standing]:
    kinds = {"docker": DockerDriver, "bubblewrap": BubblewrapDriver}
    task = f"task-{uuid.uuid4().hex}"
    driver = kinds[request.param](tmp_path / "state", task)
    async with driver, await driver.open(SandboxSpec(image, labels={"task": task})) as sandbox:
        await sandbox.write("/workspace/told", b"by the task\n")
        yield Standing(task, sandbox, environment(tmp_path, MUSTER_SANDBOX_DRIVER=request.param))


async def test_a_shell_sees_and_changes_what_the_task_does_and_no_more(standing: Standing):
    done = await muster("shell", standing.task[:20], env=standing.env, said=LOOK)

    assert (done.returncode, done.stdout.split("\n")) == (7, ["10001", "/workspace", "by the task", "held", ""])
    assert (await standing.sandbox.exec(Command("ls mine; echo on"))).output == b"mine\non\n"


async def test_a_shell_has_a_terminal_of_its_own_and_shares_the_limits(standing: Standing):
    """A time-out of the task's commands reaches it, because it is in the same group as they are."""
    ours, theirs = pty.openpty()
    terminal = os.fstat(theirs)
    shell = await asyncio.create_subprocess_exec(
        *(*MUSTER, "shell", standing.task), stdin=theirs, stdout=theirs, stderr=theirs, env=standing.env
    )
    os.write(ours, b"stat -L -c '%d %i' /proc/self/fd/0 > seen; test -t 0 && echo yes >> seen; cat\n")
    async with asyncio.timeout(60):
        while b"yes" not in (await standing.sandbox.exec(Command("cat seen"))).output:
            await asyncio.sleep(0.05)  # a terminal has no event for what a shell has done
    seen = (await standing.sandbox.exec(Command("cat seen"))).output.decode()

    assert (await standing.sandbox.exec(Command("sleep 100", timeout_s=0.1))).timed_out
    async with asyncio.timeout(60):
        assert await shell.wait() != 0
    assert seen != f"{terminal.st_dev} {terminal.st_ino}\nyes\n"
    os.close(ours)
    os.close(theirs)


async def test_a_task_that_does_not_stand_here_is_said(environment: Any, tmp_path: Path):
    done = await muster("shell", "task-that-never-was", env=environment(tmp_path))

    assert done.returncode == ExitCode.USAGE and done.stdout == ""
    assert "task-that-never-was" in done.stderr and "hint: " in done.stderr and "muster sandbox list" in done.stderr


@pytest.mark.redis
async def test_an_operator_can_help_a_running_task(start_worker: Any, fleet: Any, environment: Any, tmp_path: Path):
    await start_worker()
    task = await fleet.submit_command("until [ -e go ]; do sleep 0.05; done; cat go")

    done = await muster("shell", task.task_id, env=environment(tmp_path), said="echo helped > part && mv part go\n")

    assert done.returncode == 0, done.stderr
    result = await fleet.ended(task.task_id)
    assert result.status is State.COMPLETED and "helped" in result.output.text


@pytest.mark.parametrize("driver", ["docker", "bubblewrap"])
async def test_the_doctor_says_all_on_one_screen(environment: Any, image: str, tmp_path: Path, driver: str):
    done = await muster("doctor", env=environment(tmp_path, MUSTER_SANDBOX_DRIVER=driver))

    lines = done.stdout.splitlines()
    parts = {line.split("  ")[0] for line in lines}
    of_docker = {"storage", "limits", "user ids"}
    assert done.returncode == 0 and len(lines) <= SCREEN_LINES
    assert parts >= {"driver", "isolation", "workspaces", "quota", "image", "sandboxes"}
    assert (of_docker <= parts) is (driver == "docker")
    assert ("muster sandbox build --driver bubblewrap" in done.stdout) is (driver == "bubblewrap")


async def test_the_doctor_says_why_auto_did_not_take_the_first(environment: Any, tmp_path: Path):
    nobody = f"unix://{tmp_path}/nobody.sock"
    done = await muster("doctor", env=environment(tmp_path, MUSTER_SANDBOX_DRIVER="auto", DOCKER_HOST=nobody))

    assert done.stdout.startswith("driver       bubblewrap, by MUSTER_SANDBOX_DRIVER=auto\n")
    assert "engine cannot be reached" in done.stdout.splitlines()[1]


async def test_the_doctor_says_that_an_image_is_missing(environment: Any, tmp_path: Path):
    done = await muster("doctor", env=environment(tmp_path, MUSTER_IMAGE="muster-none:none"))

    assert "There is no image muster-none:none" in done.stdout and "hint: run `muster sandbox build`" in done.stdout


@pytest.fixture
def tag() -> Iterator[str]:
    name = f"muster-test-own:{uuid.uuid4().hex}"
    yield name
    subprocess.run(["docker", "rmi", "--force", name], capture_output=True, check=False)


@pytest.mark.redis
async def test_an_image_is_tried_when_it_is_built_and_before_a_workers_first_task(
    environment: Any, redis_server: Any, image: str, tmp_path: Path, tag: str
):
    (tmp_path / "Dockerfile").write_text(f"FROM {image}\nUSER root\nRUN rm /usr/bin/git\n")
    env = environment(tmp_path, MUSTER_IMAGE=tag, MUSTER_REDIS_URL=redis_server.url)

    built = await muster("build", "--file", str(tmp_path / "Dockerfile"), "--tag", tag, env=env)
    worker = [sys.executable, "-m", "workers.cli.worker", "build"]
    served = await asyncio.to_thread(subprocess.run, worker, capture_output=True, text=True, env=env)

    for done in (built, served):
        assert done.returncode == ExitCode.INFRASTRUCTURE
        assert f"The image {tag} has no git\nhint: " in done.stderr


async def test_a_dockerfile_needs_a_name_for_what_it_makes(environment: Any, tmp_path: Path):
    done = await muster("build", "--file", "Dockerfile", env=environment(tmp_path))
    assert done.returncode == ExitCode.USAGE and "--tag" in done.stderr


async def test_no_plain_processes_and_why(environment: Any, tmp_path: Path):
    done = await muster("check", env=environment(tmp_path, MUSTER_SANDBOX_DRIVER="process"))

    assert done.returncode == ExitCode.USAGE
    assert "no driver `process`, on purpose" in done.stderr and "use bubblewrap" in done.stderr
