"""Servers that are not as they should be, or not there; the embedded one; settings that lead to them."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
import redis.asyncio

from envelope.lifecycle import State
from envelope.messages import TaskResult
from transport import embedded, keyring
from transport.consumer import Consumer, Delivery
from transport.embedded import MAX_SOCKET_PATH_BYTES, embedded_redis, socket_path
from transport.errors import Misconfigured, Unreachable
from transport.limits import Limits
from transport.redis import connect_redis
from transport.settings import FleetSettings, connect, default_state_dir
from transport.state_folder import private_folder

pytestmark = pytest.mark.redis


@pytest.fixture
async def raw(redis_server):
    """The server itself, past the transport."""
    client = redis.asyncio.Redis.from_url(redis_server.url)
    yield client
    await client.aclose()


async def test_a_server_that_would_forget_is_refused_with_a_hint(redis_server, raw):
    await raw.config_set("maxmemory-policy", "allkeys-lru")
    try:
        with pytest.raises(Misconfigured, match="allkeys-lru") as refusal:
            await connect_redis(redis_server.url, keyring=keyring.fresh())
    finally:
        await raw.config_set("maxmemory-policy", "noeviction")
    assert "noeviction" in refusal.value.hint


async def test_a_server_that_is_not_there_is_reported_with_a_hint(tmp_path):
    with pytest.raises(Unreachable) as failure:
        await connect_redis(f"unix://{tmp_path}/none.sock", keyring=keyring.fresh())
    assert failure.value.hint


async def test_a_killed_server_comes_back_with_all_it_had_accepted(tmp_path, redis_fleet):
    keys = keyring.fresh()
    async with AsyncExitStack() as first:
        server = await first.enter_async_context(embedded_redis(tmp_path))
        transport = await connect_redis(server.url, keyring=keys)
        fleet = type(redis_fleet)(transport)
        ended, queued = await fleet.submit(), await fleet.submit()  # they start in this order
        await fleet.finish(await fleet.claim_one())
        await fleet.transport.claim("none", "w", slots=1, wait_s=1.5)  # until the file is on the disk
        os.kill(server.pid, signal.SIGKILL)

    async with embedded_redis(tmp_path):  # the same transport finds it again by itself
        assert (await transport.result(ended.task_id)).status is State.COMPLETED
        assert (await fleet.claim_one()).lease.task_id == queued.task_id
        await transport.close()


async def test_a_worker_outlives_a_restart_of_its_server(tmp_path, redis_fleet):
    started, go_on, stop = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def handle(delivery: Delivery):
        started.set()
        await go_on.wait()
        return fleet.result(delivery.claim, "after all")

    async with AsyncExitStack() as first:
        server = await first.enter_async_context(embedded_redis(tmp_path))
        transport = await connect_redis(server.url, keyring=keyring.fresh())
        fleet = type(redis_fleet)(transport)
        consumer = Consumer(transport, pool="explore", worker="w1", slots=2, handle=handle)
        running = asyncio.create_task(consumer.run(stop))
        before = await fleet.submit()
        await started.wait()
        await fleet.transport.claim("none", "w", slots=1, wait_s=1.5)  # until the file is on the disk
        os.kill(server.pid, signal.SIGKILL)

    go_on.set()  # its result is ready while nobody is there to take it
    async with embedded_redis(tmp_path), asyncio.timeout(30):
        after = await fleet.submit()
        assert {r.output.text async for r in transport.results([before.task_id, after.task_id])} == {"after all"}
        assert (await transport.record(before.task_id)).attempt == 1
        stop.set()
        await running
        await transport.close()


async def _told_by(program: Path) -> str:
    process = await asyncio.create_subprocess_exec(program, "--version", stdout=asyncio.subprocess.PIPE)
    told, _ = await process.communicate()
    return told.decode().partition("v=")[2].split()[0]


async def test_an_embedded_server_tells_what_it_is(redis_server):
    assert redis_server.program.exists()
    assert tuple(map(int, redis_server.version.split(".")[:2])) >= (6, 2)
    assert redis_server.url.startswith("unix://")


async def test_an_older_server_is_refused_on_a_newer_ones_files(tmp_path):
    (tmp_path / "redis").mkdir()
    (tmp_path / "redis" / "server-version").write_text("99.0.0")

    with pytest.raises(Misconfigured, match=r"99\.0\.0") as refusal:
        async with embedded_redis(tmp_path):
            raise AssertionError("it started")
    assert str(embedded.find_server()) in refusal.value.message


async def test_a_newer_servers_files_are_read_by_the_next_server_that_can(tmp_path, monkeypatch):
    """As on a machine with an old server first on PATH, and Debian's own behind it."""
    whole, version = embedded.find_server(), (await _told_by(embedded.find_server()))
    old = tmp_path / "old" / "redis-server"
    old.parent.mkdir()
    old.write_text(f'#!/bin/sh\n[ "$1" = --version ] && echo \'Redis server v=2.8.0\' || exec {whole} "$@"\n')
    old.chmod(0o755)
    monkeypatch.setenv("PATH", f"{old.parent}:{whole.parent}:{os.environ['PATH']}")
    state = tmp_path / "state"
    private_folder(state / "redis")

    async with embedded_redis(state) as server:
        assert (server.program, server.version) == (old, "2.8.0")
    (state / "redis" / "server-version").write_text(version)
    async with embedded_redis(state) as server:
        assert server.version == version
    assert (state / "redis" / "server-version").read_text() == version


async def test_one_state_folder_has_one_server(tmp_path, monkeypatch):
    monkeypatch.setattr(embedded, "LOCK_TIMEOUT_S", 0.1)
    async with embedded_redis(tmp_path) as server:
        with pytest.raises(Misconfigured, match="already"):
            async with embedded_redis(tmp_path):
                raise AssertionError("it started")
        await (await connect_redis(server.url, keyring=keyring.fresh())).close()  # the first one is unharmed


async def test_a_server_that_cannot_start_is_reported(tmp_path):
    (tmp_path / "redis").mkdir()
    (tmp_path / "redis" / "appendonly.aof").write_text("this is no append-only file")
    (tmp_path / "redis" / "appendonlydir").write_text("nor is this a folder")

    with pytest.raises(Unreachable) as failure:
        async with embedded_redis(tmp_path):
            raise AssertionError("it started")
    assert "redis.log" in failure.value.hint


async def test_no_server_is_left_behind(tmp_path):
    async with embedded_redis(tmp_path) as server:
        assert Path(f"/proc/{server.pid}").exists()

    assert not Path(f"/proc/{server.pid}").exists()
    assert not socket_path(tmp_path).exists()


def test_a_socket_path_is_short_wherever_the_state_folder_is(tmp_path):
    assert len(os.fsencode(socket_path(tmp_path / ("x" * 200)))) <= MAX_SOCKET_PATH_BYTES


async def test_settings_lead_to_the_embedded_fleet_of_the_state_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("MUSTER_STATE_DIR", str(tmp_path))
    monkeypatch.setenv("MUSTER_LEASE_S", "2.5")
    monkeypatch.delenv("MUSTER_REDIS_URL", raising=False)
    settings = FleetSettings()

    with pytest.raises(Unreachable) as failure:
        await connect(settings)
    assert "muster up" in failure.value.hint

    async with embedded_redis(tmp_path):
        transport = await connect(settings)
        assert transport.limits.lease_ms == 2500
        large = await transport.blobs.put(b"x" * 100_000)
        small = await transport.blobs.put(b"x")
        assert (await transport.blobs.get(large), await transport.blobs.get(small)) == (b"x" * 100_000, b"x")
        assert len([file for file in (tmp_path / "blobs").rglob("*") if file.is_file()]) == 1
        await transport.close()
    assert json.loads(settings.keyring_path.read_text())["current"] == "k1"


async def test_a_result_is_stored_once_even_when_two_claim_to_have_it(make_redis_fleet):
    fleet = await make_redis_fleet(Limits(lease_ms=100))
    request = await fleet.submit()
    first = await fleet.claim_one("w1")
    second = await fleet.claim_one("w2")
    outcomes = await asyncio.gather(
        fleet.finish(first, "first"), fleet.finish(second, "second"), return_exceptions=True
    )

    assert [type(outcome).__name__ for outcome in outcomes] == ["Fenced", "TaskResult"]
    entries = [entry.message async for entry in fleet.transport.follow(request.trace_id)]
    assert [m.output.text for m in entries if isinstance(m, TaskResult)] == ["second"]


def test_a_state_folder_given_relatively_is_meant_from_where_the_command_was_typed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MUSTER_STATE_DIR", ".demo/state")

    assert FleetSettings().state_dir == tmp_path / ".demo" / "state"


def test_a_path_that_is_set_to_nothing_is_the_usual_one(monkeypatch: pytest.MonkeyPatch):
    for name in ("MUSTER_STATE_DIR", "MUSTER_KEYRING"):
        monkeypatch.setenv(name, "")

    settings = FleetSettings()

    assert (settings.state_dir, settings.keyring) == (default_state_dir(), None)
