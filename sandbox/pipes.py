"""Standard input and output of a process of this host, as a channel wants them."""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import suppress

READ_BYTES = 256 * 1024
MAX_COMPLAINT_BYTES = 2000  # a Python traceback


class ProcessStream:
    """See `channel.ByteStream`. `close` kills the process; what it says on standard error is kept for messages."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdin is not None and process.stdout is not None and process.stderr is not None
        self._process = process
        self._input, self._output, self._errors = process.stdin, process.stdout, process.stderr
        self.complaint = b""
        self._listening = asyncio.create_task(self._listen())

    async def read(self) -> bytes:
        data = await self._output.read(READ_BYTES)
        if not data:
            await self._listening  # it may have said why
        return data

    async def write(self, data: bytes) -> None:
        self._input.write(data)
        await self._input.drain()

    async def close(self) -> None:
        if self._process.returncode is None:
            with suppress(ProcessLookupError):
                os.kill(self._process.pid, signal.SIGKILL)  # its own `kill` would collect it before the event loop does
        await self._process.wait()
        self._listening.cancel()
        await asyncio.gather(self._listening, return_exceptions=True)

    async def _listen(self) -> None:
        while data := await self._errors.read(READ_BYTES):
            self.complaint = (self.complaint + data)[-MAX_COMPLAINT_BYTES:]
