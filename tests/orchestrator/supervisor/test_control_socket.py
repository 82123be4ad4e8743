"""The control socket of a fleet, over real unix sockets."""

from __future__ import annotations

import asyncio
import json
import socket
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio

from orchestrator.supervisor.control import ControlSocket

Client = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Fleet:
    def __init__(self, control: ControlSocket, path: Path) -> None:
        self.control = control
        self.path = path

    async def client(self) -> Client:
        before = self.control.clients
        client = await asyncio.open_unix_connection(self.path)
        await self.until(lambda: self.control.clients > before)
        return client

    async def until(self, so) -> None:
        async with asyncio.timeout(60):
            while not so():
                self.control.changed.clear()
                await self.control.changed.wait()


@pytest_asyncio.fixture
async def fleet() -> AsyncIterator[Fleet]:
    with tempfile.TemporaryDirectory() as folder:
        control = ControlSocket()
        path = Path(folder) / "muster" / "fleet" / "control.sock"  # as `socket_path` has it
        await control.listen(path)
        yield Fleet(control, path)
        await control.close()


async def _say(client: Client, what: str) -> None:
    client[1].write(json.dumps({"do": what}).encode() + b"\n")
    await client[1].drain()


async def test_clients_are_counted_as_they_come_and_go(fleet: Fleet):
    first, second = await fleet.client(), await fleet.client()
    assert fleet.control.wanted
    first[1].close()
    await fleet.until(lambda: fleet.control.clients == 1)
    second[1].close()
    await fleet.until(lambda: not fleet.control.wanted)


async def test_clients_who_waited_and_clients_who_come_later_get_the_same_status(fleet: Fleet):
    early = await fleet.client()
    fleet.control.publish({"pid": 1})
    fleet.control.publish({"pid": 2})
    late = await fleet.client()
    assert [json.loads(await client[0].readline()) for client in (early, late)] == [{"pid": 1}, {"pid": 1}]


async def test_a_status_reaches_its_clients_even_if_the_fleet_closes_at_once(fleet: Fleet):
    client = await fleet.client()
    fleet.control.publish({"error": "no engine"})
    await fleet.control.close()
    assert json.loads(await client[0].read()) == {"error": "no engine"}


async def test_a_fleet_that_is_asked_to_stay_is_wanted_without_clients(fleet: Fleet):
    client = await fleet.client()
    await _say(client, "stay")
    client[1].close()
    await fleet.until(lambda: fleet.control.clients == 0)
    assert fleet.control.wanted


async def test_a_request_to_stop_is_heard(fleet: Fleet):
    await _say(await fleet.client(), "stop")
    async with asyncio.timeout(60):
        await fleet.control.until_stopped()


async def test_a_fleet_renews_itself_for_its_only_client(fleet: Fleet):
    await _say(await fleet.client(), "stop_if_unused")
    async with asyncio.timeout(60):
        await fleet.control.until_stopped()


async def test_a_fleet_that_others_need_does_not_renew_itself(fleet: Fleet):
    asking, _other = await fleet.client(), await fleet.client()
    await _say(asking, "stop_if_unused")
    assert json.loads(await asking[0].readline()) == {"stopped": False}
    assert not fleet.control.stopping


async def test_a_fleet_with_live_tasks_does_not_renew_itself(fleet: Fleet):
    async def busy() -> bool:
        return True

    fleet.control.busy = busy
    client = await fleet.client()
    await _say(client, "stop_if_unused")
    assert json.loads(await client[0].readline()) == {"stopped": False}


async def test_a_client_who_talks_nonsense_is_shown_out(fleet: Fleet):
    client = await fleet.client()
    client[1].write(b"\xff not json\n")
    assert await client[0].read() == b""
    await fleet.until(lambda: fleet.control.clients == 0)


async def test_whoever_starts_the_fleet_brings_a_connection_along(fleet: Fleet):
    ours, theirs = socket.socketpair()
    await fleet.control.adopt(theirs)
    fleet.control.publish({"pid": 1})
    reader, writer = await asyncio.open_unix_connection(sock=ours)
    assert json.loads(await reader.readline()) == {"pid": 1}
    writer.close()
    await fleet.until(lambda: fleet.control.clients == 0)
