"""The proxy does what it says: seen by a client of an echo server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from lab.proxy import DELAY_S, Proxy, cutting, fair, proxy_to, resetting, silent, slow, trickling


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while chunk := await reader.read(1000):
        writer.write(chunk)
    writer.close()


@pytest_asyncio.fixture
async def proxy() -> AsyncIterator[Proxy]:
    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    async with server, proxy_to(server.sockets[0].getsockname()[1]) as found:
        yield found


class Client:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    async def says(self, text: bytes, *, hears: int) -> bytes:
        """What comes back of it: so many bytes, or fewer when the connection ends."""
        self._writer.write(text)
        try:
            return await self._reader.readexactly(hears)
        except asyncio.IncompleteReadError as error:
            return error.partial


@pytest_asyncio.fixture
async def client(proxy: Proxy) -> AsyncIterator[Client]:
    reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
    yield Client(reader, writer)
    writer.transport.abort()


async def test_in_fair_weather_everything_passes(client: Client) -> None:
    assert await client.says(b"hello", hears=5) == b"hello"


async def test_a_slow_network_delays_both_ways(proxy: Proxy, client: Client) -> None:
    proxy.weather = slow
    began_s = asyncio.get_running_loop().time()

    assert await client.says(b"hello", hears=5) == b"hello"
    assert asyncio.get_running_loop().time() - began_s >= 2 * DELAY_S


async def test_a_trickle_is_a_byte_a_second(proxy: Proxy, client: Client) -> None:
    proxy.weather = trickling
    began_s = asyncio.get_running_loop().time()

    assert await client.says(b"ab", hears=2) == b"ab"
    assert asyncio.get_running_loop().time() - began_s >= 1.0


async def test_a_cut_comes_in_the_middle_of_a_reply(proxy: Proxy, client: Client) -> None:
    proxy.weather = cutting

    assert await client.says(b"hello!", hears=6) == b"hel"


async def test_a_reset_is_a_reset(proxy: Proxy, client: Client) -> None:
    proxy.weather = resetting

    with pytest.raises(ConnectionResetError):
        await client.says(b"hello", hears=5)


async def test_a_half_open_connection_stays_silent_when_the_weather_clears(proxy: Proxy, client: Client) -> None:
    proxy.weather = silent
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.2):
            await client.says(b"hello", hears=5)

    proxy.weather = fair
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.2):
            await client.says(b"hello", hears=5)
