"""An engine that goes away under a running command, and a disk that is full: the task comes again and ends well."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from envelope.errors import ErrorCode
from envelope.lifecycle import State
from repo.errors import DiskFull as NoRoomForGit
from sandbox.driver import DockerDriver
from sandbox.errors import DiskFull, SandboxLost
from transport.delivery import MAX_RETRIES, Again
from workers.delivery.failures import again, told_by_cause

ENGINE = os.environ.get("DOCKER_HOST", "unix:///var/run/docker.sock").removeprefix("unix://")
UNTIL_RELEASED = "touch /tmp/started; until [ -e /tmp/go ]; do sleep 0.05; done; echo released"


class Road:
    """Between a worker and the engine: a socket that passes everything on, until it is taken away."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._open: set[asyncio.StreamWriter] = set()
        self._server: asyncio.Server | None = None

    async def build(self) -> None:
        self._server = await asyncio.start_unix_server(self._carry, self.path)

    def take_away(self) -> None:
        assert self._server is not None
        self._server.close()
        self.path.unlink()
        for writer in self._open:
            writer.transport.abort()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        engine_reader, engine_writer = await asyncio.open_unix_connection(ENGINE)
        self._open |= {writer, engine_writer}
        await asyncio.gather(_pass_on(reader, engine_writer), _pass_on(engine_reader, writer))
        self._open -= {writer, engine_writer}


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    writer.close()


@pytest.fixture
async def road(tmp_path: Path) -> AsyncIterator[Road]:
    made = Road(tmp_path / "docker.sock")
    await made.build()
    yield made
    made.take_away()


@pytest.fixture
def only_way(start_hands: Any, road: Road, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """To the engine, for workers. Set last and unset first: who clears up waits for `docker`, and the road with it."""
    with monkeypatch.context() as here:
        here.setenv("DOCKER_HOST", f"unix://{road.path}")
        yield


async def succeeds_in(containers: Callable[[], list[str]], *words: str) -> None:
    """Return when the program has succeeded in one of the containers."""
    command = ["docker", "--host", f"unix://{ENGINE}", "exec"]
    while True:
        for container in await asyncio.to_thread(containers):
            run = [*command, container, *words]
            if (await asyncio.to_thread(subprocess.run, run, capture_output=True, check=False)).returncode == 0:
                return
        await asyncio.sleep(0.05)


@pytest.mark.redis
@pytest.mark.docker
@pytest.mark.usefixtures("only_way")
async def test_a_task_outlives_an_engine_that_vanishes_under_its_command(road: Road, start_hands: Any):
    hands = await start_hands()
    request = hands.recipe(UNTIL_RELEASED)

    def containers() -> list[str]:
        listing = [
            "docker",
            "--host",
            f"unix://{ENGINE}",
            "ps",
            "-q",
            "--filter",
            f"label=muster.task={request.task_id}",
        ]
        return subprocess.check_output(listing, text=True).split()

    await hands.transport.submit([request])
    async with asyncio.timeout(60):
        await succeeds_in(containers, "test", "-e", "/tmp/started")
    road.take_away()
    await hands.until(request.trace_id, lambda progress: progress.status is State.PENDING and progress.attempt == 1)
    await road.build()
    async with asyncio.timeout(120):
        await hands.until(request.trace_id, lambda progress: progress.status is State.RUNNING and progress.attempt > 1)
        await succeeds_in(containers, "touch", "/tmp/go")
        result = await hands.ended(request.task_id)

    assert (result.status, result.errors) == (State.COMPLETED, ())
    assert (await hands.transport.record(request.task_id)).retries == result.attempt - 1 > 0


@pytest.mark.docker
async def test_a_sandbox_that_is_lost_while_its_engine_answers_is_the_tasks_own_end(driver: DockerDriver):
    with pytest.raises(SandboxLost, match="gone"):
        async with told_by_cause(driver):
            raise SandboxLost("gone")


@pytest.mark.docker
async def test_a_full_disk_is_another_attempt_until_there_were_enough_of_them(driver: DockerDriver):
    with pytest.raises(DiskFull) as full:
        async with told_by_cause(driver):
            raise OSError(28, "No space left on device", "/state/cache")

    assert again(full.value, retries=0) == Again(ErrorCode.SANDBOX, "The disk of /state/cache is full.")
    assert again(full.value, retries=MAX_RETRIES) is None
    assert again(NoRoomForGit("The disk is full"), retries=0) == Again(ErrorCode.REPOSITORY, "The disk is full")
