"""A way to a server's socket that can be cut: whoever talks through it loses the connection, and may come again."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path


class Way:
    def __init__(self, to: Path) -> None:
        self._to = to
        self._ends: set[asyncio.StreamWriter] = set()
        self._server: asyncio.Server | None = None

    async def open(self, at: Path) -> None:
        self._server = await asyncio.start_unix_server(self._carry, at)

    def cut(self) -> int:
        """So many ends of connections as there were are gone."""
        count = len(self._ends)
        for end in list(self._ends):
            end.transport.abort()
        return count

    async def close(self) -> None:
        assert self._server
        self._server.close()
        self.cut()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_unix_connection(self._to)
        ends = {writer, far_writer}
        self._ends |= ends
        try:
            await asyncio.gather(_pump(reader, far_writer), _pump(far_reader, writer))
        finally:
            self._ends -= ends
            for end in ends:
                end.close()


async def _pump(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await source.read(1 << 16):
            target.write(data)
            await target.drain()
        target.write_eof()
