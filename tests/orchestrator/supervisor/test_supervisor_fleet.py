"""The fleet of one machine, whole: Redis, orchestrator and pools as real processes."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from asyncio.subprocess import Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from envelope.errors import ExitCode
from orchestrator.client import Muster
from orchestrator.settings import Settings
from orchestrator.supervisor.attach import attached, is_running, stop_fleet
from orchestrator.supervisor.control import state_lock
from orchestrator.supervisor.errors import FleetError, StartFailed

pytestmark = [pytest.mark.docker, pytest.mark.redis]


def _processes_of(state_dir: Path) -> list[str]:
    """Every other process that was given this state folder, by the kernel's account."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        if folder.name == str(os.getpid()):
            continue
        try:
            if f"MUSTER_STATE_DIR={state_dir}\0".encode() in (folder / "environ").read_bytes():
                words = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode().strip()
                found.append(words)
        except OSError:
            continue  # it has just ended, or is not ours to see
    return [words for words in found if words]


def _umask_of(pid: int) -> str:
    status = Path(f"/proc/{pid}/status").read_text()
    return next(line.split()[1] for line in status.splitlines() if line.startswith("Umask:"))


def _containers_of(state_dir: Path) -> list[str]:
    words = ("docker", "ps", "-a", "--filter", "label=muster.owner", "--format", "{{.Names}} {{.Mounts}}")
    listed = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    return [line for line in listed.splitlines() if str(state_dir) in line]


async def test_a_fleet_starts_on_demand_serves_and_goes_without_a_trace(settings: Settings):
    async with attached(settings) as fleet, Muster.connect(settings) as muster:
        assert fleet.different == ()
        assert {card.pool for card in await muster.workers()} == {"orchestrator", "build"}
        running = _processes_of(settings.state_dir)
        cards = await muster.workers()
        assert {_umask_of(pid) for pid in (fleet.pid, *(card.pid for card in cards))} == {"0077"}
        assert settings.state_dir.stat().st_mode & 0o777 == 0o700
        assert any("orchestrator.service" in words for words in running)
        assert any("workers.cli.worker build --slots 1" in words for words in running)
    assert await stop_fleet(settings)
    assert not await is_running(settings)
    assert not _processes_of(settings.state_dir)
    assert not _containers_of(settings.state_dir)


async def test_a_fleet_that_has_ended_is_not_among_the_workers_of_the_next(settings: Settings):
    async with attached(settings), Muster.connect(settings) as muster:
        gone = {card.pid for card in await muster.workers()}
    assert await stop_fleet(settings)

    async with attached(settings), Muster.connect(settings) as muster:
        there = {card.pid for card in await muster.workers()}
        assert len(there) == 2
        assert not there & gone
    await stop_fleet(settings)


async def test_a_killed_worker_comes_back(settings: Settings):
    async with attached(settings) as fleet, Muster.connect(settings) as muster:
        first = await _worker_other_than(0, muster)
        os.kill(first, signal.SIGKILL)
        second = await _worker_other_than(first, muster)
        assert f"\nPPid:\t{fleet.pid}\n" in Path(f"/proc/{second}/status").read_text()
    await stop_fleet(settings)


async def _worker_other_than(pid: int, muster: Muster) -> int:
    async with asyncio.timeout(30):
        while True:
            if found := [card.pid for card in await muster.workers() if card.pool == "build" and card.pid != pid]:
                return found[0]
            await asyncio.sleep(0.1)  # an announcement in Redis has no event


async def test_a_killed_redis_comes_back_with_its_tasks(settings: Settings):
    async with attached(settings), Muster.connect(settings) as muster:
        blob = await muster.transport.blobs.put(b"kept" * 10)
        server = next(
            folder for folder in Path("/proc").glob("[0-9]*") if _is_redis_of(folder, settings.state_dir.parent)
        )
        os.kill(int(server.name), signal.SIGKILL)
        async with asyncio.timeout(30):
            while not await _answers(muster):
                await asyncio.sleep(0.05)  # its start is the supervisor's to see, not ours
        assert await muster.transport.blobs.get(blob) == b"kept" * 10
    await stop_fleet(settings)


def _is_redis_of(folder: Path, home: Path) -> bool:
    try:
        words = (folder / "cmdline").read_bytes()
    except OSError:
        return False
    # Redis writes its title over its arguments: the socket is what is left of them.
    return b"redis-server" in words and str(home).encode() in words


async def _answers(muster: Muster) -> bool:
    try:
        await muster.transport.now_ms()
    except Exception:
        return False
    return True


@asynccontextmanager
async def _supervisor(*options: str) -> AsyncIterator[Process]:
    supervisor = await asyncio.create_subprocess_exec(sys.executable, "-m", "orchestrator.supervisor", *options)
    yield supervisor
    if supervisor.returncode is None:
        supervisor.terminate()
    await supervisor.wait()


async def _listens(settings: Settings) -> None:
    async with asyncio.timeout(30):
        while not await is_running(settings):
            await asyncio.sleep(0.05)  # a socket that appears has no event


async def test_an_unwanted_fleet_stops_by_itself(settings: Settings):
    async with _supervisor("--idle-s", "0.3") as supervisor:
        await _listens(settings)
        async with attached(settings, start=False) as fleet:
            assert fleet.pid == supervisor.pid
        async with asyncio.timeout(60):
            assert await supervisor.wait() == 0
    assert not await is_running(settings)


async def test_a_fleet_that_stays_outlives_its_clients(settings: Settings):
    async with _supervisor("--idle-s", "0.1") as supervisor:
        await _listens(settings)
        async with attached(settings, start=False) as here:
            await here.request("stay")
        async with attached(settings, start=False) as again:
            assert again.pid == supervisor.pid
        assert await stop_fleet(settings)


async def test_a_terminated_supervisor_takes_everything_along(settings: Settings):
    async with _supervisor("--stay") as supervisor:
        await _listens(settings)
        async with attached(settings, start=False):
            supervisor.terminate()
            async with asyncio.timeout(60):
                assert await supervisor.wait() == 0
    assert not _processes_of(settings.state_dir)


async def _other_fleet(settings: Settings, pid: int, told: list[str]) -> int:
    """A fleet that is found running is still needed until it has seen that the last client is gone."""
    while True:
        async with attached(settings, tell=told.append) as found:
            if found.pid != pid:
                assert found.different == ()
                return found.pid


async def test_other_settings_start_an_unneeded_fleet_anew_and_say_so(settings: Settings):
    others, told = settings.model_copy(update={"model": "openai/other", "read_only": True}), list[str]()
    async with attached(settings) as first:
        pid = first.pid
    for looking in ({"works": False}, {"start": False}):  # who only looks changes nothing
        async with attached(others, **looking, tell=told.append) as seen:
            assert (seen.pid, seen.different, told) == (pid, ("MUSTER_MODEL",), [])
    async with asyncio.timeout(120):
        second = await _other_fleet(others, pid, told)
    assert len(told) == 1 and "with other settings (MUSTER_MODEL)" in told[0]
    async with attached(others) as third:
        assert third.pid == second
        async with attached(settings, tell=told.append) as fourth:
            assert (fourth.pid, fourth.different, len(told)) == (second, ("MUSTER_MODEL",), 1)
    await stop_fleet(settings)


async def test_settings_that_no_worker_starts_with_are_refused_and_the_fleet_goes_on(settings: Settings, monkeypatch):
    async with attached(settings) as first:
        pid = first.pid
    with monkeypatch.context() as wrong:
        wrong.setenv("MUSTER_MODEL_EFFORT", "hihg")
        with pytest.raises(StartFailed) as failure:
            async with attached(settings):
                pass
    assert failure.value.message.startswith("MUSTER_MODEL_EFFORT is not usable")
    assert (failure.value.exit_code, "MUSTER_MODEL_EFFORT" in failure.value.hint) == (ExitCode.USAGE, True)
    async with attached(settings, start=False) as still:
        assert still.pid == pid
    await stop_fleet(settings)


async def test_two_starters_get_one_fleet(settings: Settings):
    async def start() -> int:
        async with attached(settings) as fleet:
            return fleet.pid

    assert len(set(await asyncio.gather(start(), start(), start()))) == 1
    await stop_fleet(settings)


async def test_what_a_part_refuses_to_start_for_is_told_to_who_started_it(settings: Settings):
    without = settings.model_copy(update={"image": "muster-none:none"})
    with pytest.raises(StartFailed) as failure:
        async with attached(Settings(**{**without.model_dump(), "state_dir": settings.state_dir})):
            pass
    assert "muster-none:none" in failure.value.message
    assert "muster sandbox build" in failure.value.hint


async def test_nothing_is_started_for_somebody_who_only_looks(settings: Settings):
    with pytest.raises(FleetError):
        async with attached(settings, start=False):
            pass
    with state_lock(settings.state_dir):
        assert not await is_running(settings)
    assert not await stop_fleet(settings)
