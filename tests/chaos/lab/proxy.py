"""A TCP proxy on loopback that does to connections what networks do."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

CHUNK_BYTES = 64 * 1024
DELAY_S = 0.5


class Broken(Exception):
    """The proxy ends this connection; `reset`: with RST instead of an orderly end."""

    def __init__(self, *, reset: bool = False) -> None:
        self.reset = reset


@dataclass(slots=True)
class Way:
    """One direction of a connection."""

    source: asyncio.StreamReader
    sink: asyncio.StreamWriter
    is_reply: bool
    lost: bool = False  # bytes were swallowed: what comes later would make no sense


Weather = Callable[[Way, bytes], Awaitable[None]]


async def fair(way: Way, chunk: bytes) -> None:
    way.sink.write(chunk)
    await way.sink.drain()


async def slow(way: Way, chunk: bytes) -> None:
    await asyncio.sleep(DELAY_S)
    await fair(way, chunk)


async def trickling(way: Way, chunk: bytes) -> None:
    """One byte a second."""
    for at in range(len(chunk)):
        await fair(way, chunk[at : at + 1])
        await asyncio.sleep(1.0)


async def silent(way: Way, _chunk: bytes) -> None:
    """Half-open: both ends believe in a connection that carries nothing, and goes on to carry nothing."""
    way.lost = True


async def cutting(way: Way, chunk: bytes) -> None:
    """Ends in the middle of a reply."""
    if not way.is_reply:
        await fair(way, chunk)
    else:
        await fair(way, chunk[: len(chunk) // 2])
        raise Broken


async def resetting(_way: Way, _chunk: bytes) -> None:
    raise Broken(reset=True)


WEATHERS: dict[str, Weather] = {w.__name__: w for w in (fair, slow, trickling, silent, cutting, resetting)}


class Proxy:
    """`weather` may be set at any time: it counts for the next bytes of every connection."""

    def __init__(self, upstream_port: int) -> None:
        self.weather: Weather = fair
        self.port = 0
        self._upstream_port = upstream_port
        self._pumps: set[asyncio.Task[None]] = set()

    async def serve(self, near: asyncio.StreamReader, near_sink: asyncio.StreamWriter) -> None:
        try:
            far, far_sink = await asyncio.open_connection("127.0.0.1", self._upstream_port)
        except OSError:
            near_sink.transport.abort()
            return
        ways = (Way(near, far_sink, is_reply=False), Way(far, near_sink, is_reply=True))
        for way, other in zip(ways, reversed(ways), strict=True):
            pump = asyncio.create_task(self._pump(way, other))
            self._pumps.add(pump)
            pump.add_done_callback(self._pumps.discard)

    async def close(self) -> None:
        pumps = list(self._pumps)
        for pump in pumps:
            pump.cancel()
        await asyncio.gather(*pumps, return_exceptions=True)

    async def _pump(self, way: Way, other: Way) -> None:
        try:
            while chunk := await way.source.read(CHUNK_BYTES):
                if not way.lost:
                    await self.weather(way, chunk)
        except Broken as broken:
            for sink in (way.sink, other.sink):
                _end(sink, reset=broken.reset)
        except OSError:
            _end(other.sink, reset=True)
        if not way.lost and not other.lost:
            # of a half-open connection the other side hears nothing, not even its end
            _end(way.sink)


def _end(sink: asyncio.StreamWriter, *, reset: bool = False) -> None:
    if reset:
        with suppress(OSError):
            found = sink.get_extra_info("socket")
            found.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        sink.transport.abort()
    else:
        sink.close()


@asynccontextmanager
async def proxy_to(port: int) -> AsyncIterator[Proxy]:
    proxy = Proxy(port)
    server = await asyncio.start_server(proxy.serve, "127.0.0.1", 0)
    proxy.port = server.sockets[0].getsockname()[1]
    try:
        yield proxy
    finally:
        server.close()
        await proxy.close()
