"""The socket that keeps a fleet alive, over real unix sockets."""

from __future__ import annotations

import asyncio
import json
import socket
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio

from orchestrator.supervisor.keep import Keepers

Guest = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class House:
    def __init__(self, keepers: Keepers, path: Path) -> None:
        self.keepers = keepers
        self.path = path

    async def guest(self) -> Guest:
        before = self.keepers.guests
        guest = await asyncio.open_unix_connection(self.path)
        await self.until(lambda: self.keepers.guests > before)
        return guest

    async def until(self, so) -> None:
        async with asyncio.timeout(5):
            while not so():
                self.keepers.changed.clear()
                await self.keepers.changed.wait()


@pytest_asyncio.fixture
async def house() -> AsyncIterator[House]:
    with tempfile.TemporaryDirectory() as folder:
        keepers = Keepers()
        path = Path(folder) / "keep.sock"
        await keepers.listen(path)
        yield House(keepers, path)
        await keepers.close()


async def _say(guest: Guest, wish: str) -> None:
    guest[1].write(json.dumps({"do": wish}).encode() + b"\n")
    await guest[1].drain()


async def test_guests_are_counted_as_they_come_and_go(house: House):
    first, second = await house.guest(), await house.guest()
    assert house.keepers.wanted
    first[1].close()
    await house.until(lambda: house.keepers.guests == 1)
    second[1].close()
    await house.until(lambda: not house.keepers.wanted)


async def test_guests_who_waited_and_guests_who_come_later_get_the_same_greeting(house: House):
    early = await house.guest()
    house.keepers.greet({"pid": 1})
    house.keepers.greet({"pid": 2})
    late = await house.guest()
    assert [json.loads(await guest[0].readline()) for guest in (early, late)] == [{"pid": 1}, {"pid": 1}]


async def test_a_greeting_reaches_its_guests_even_if_the_house_closes_at_once(house: House):
    guest = await house.guest()
    house.keepers.greet({"error": "no engine"})
    await house.keepers.close()
    assert json.loads(await guest[0].read()) == {"error": "no engine"}


async def test_a_fleet_that_is_asked_to_stay_is_wanted_without_guests(house: House):
    guest = await house.guest()
    await _say(guest, "stay")
    guest[1].close()
    await house.until(lambda: house.keepers.guests == 0)
    assert house.keepers.wanted


async def test_a_wish_to_stop_is_heard(house: House):
    await _say(await house.guest(), "stop")
    async with asyncio.timeout(5):
        await house.keepers.until_stopped()


async def test_a_fleet_renews_itself_for_its_only_guest(house: House):
    await _say(await house.guest(), "renew")
    async with asyncio.timeout(5):
        await house.keepers.until_stopped()


async def test_a_fleet_that_others_need_does_not_renew_itself(house: House):
    asking, _other = await house.guest(), await house.guest()
    await _say(asking, "renew")
    assert json.loads(await asking[0].readline()) == {"renewed": False}
    assert not house.keepers.stopping


async def test_a_fleet_with_live_tasks_does_not_renew_itself(house: House):
    async def busy() -> bool:
        return True

    house.keepers.busy = busy
    guest = await house.guest()
    await _say(guest, "renew")
    assert json.loads(await guest[0].readline()) == {"renewed": False}


async def test_a_guest_who_talks_nonsense_is_shown_out(house: House):
    guest = await house.guest()
    guest[1].write(b"\xff not json\n")
    assert await guest[0].read() == b""
    await house.until(lambda: house.keepers.guests == 0)


async def test_whoever_starts_the_fleet_brings_a_connection_along(house: House):
    ours, theirs = socket.socketpair()
    await house.keepers.adopt(theirs)
    house.keepers.greet({"pid": 1})
    reader, writer = await asyncio.open_unix_connection(sock=ours)
    assert json.loads(await reader.readline()) == {"pid": 1}
    writer.close()
    await house.until(lambda: house.keepers.guests == 0)
