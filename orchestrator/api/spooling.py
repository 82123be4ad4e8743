"""Uploads: on the disk while they come, and in memory for the moment in which the store of blobs takes them.

A client may take minutes for its 64 MiB. So what comes slowly costs a file, and memory is for two uploads at a time,
whoever they are from: turns are fair between tokens.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections import defaultdict
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import IO

from envelope.logs import get_logger
from repo.fairness import FairSemaphore

from .problems import Problem

# Of one token: uploads that come. What more calls send is not taken from the network yet.
UPLOADS_AT_ONCE = 16
IN_MEMORY_AT_ONCE = 2
SMALL_BYTES = 256 * 1024  # what is no longer is no file, and waits for no turn

_log = get_logger("api")


class Spool:
    """A server's. `places`: by token."""

    def __init__(self) -> None:
        self.places = defaultdict[str, asyncio.Semaphore](lambda: asyncio.Semaphore(UPLOADS_AT_ONCE))
        self._memory = FairSemaphore(IN_MEMORY_AT_ONCE)

    @asynccontextmanager
    async def spooled(self, who: str, pieces: AsyncIterator[bytes]) -> AsyncGenerator[IO[bytes]]:
        """A file without a name: it is nobody else's, and gone with this, or with the process."""
        async with self.places[who]:
            with tempfile.SpooledTemporaryFile(max_size=SMALL_BYTES) as file:
                size_bytes = 0
                async for piece in pieces:
                    size_bytes += len(piece)
                    if size_bytes <= SMALL_BYTES:
                        file.write(piece)
                    else:
                        await _write(file, piece)
                yield file

    @asynccontextmanager
    async def whole(self, who: str, file: IO[bytes]) -> AsyncGenerator[bytes]:
        """All of a file. Who stores it meanwhile has one of the few turns."""
        if await asyncio.to_thread(file.seek, 0, 2) <= SMALL_BYTES:
            file.seek(0)
            yield file.read()
            return
        async with self._memory.turn(who):
            await asyncio.to_thread(file.seek, 0)
            yield await asyncio.to_thread(file.read)


async def _write(file: IO[bytes], piece: bytes) -> None:
    try:
        await asyncio.to_thread(file.write, piece)
    except OSError as e:
        _log.error("upload_has_no_room", folder=tempfile.gettempdir(), error=type(e).__name__)
        hint = "whoever runs it finds what in its log"
        raise Problem(HTTPStatus.INSUFFICIENT_STORAGE, "the server has no room for this upload", hint=hint) from e
