"""Standard input and output as a transport of messages, one JSON object a line.

The library's own would end at a line that is JSON and no object, and says nothing to one that is no JSON.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import Any, cast

from acp import RequestError

from ..errors import BadInput

# An editor sends files along: three images of 5 MB, as base64, fit.
MAX_LINE_BYTES = 32 * 1024 * 1024
CHUNK_BYTES = 256 * 1024

# Of a sign that takes two escapes, such as an emoji, an editor may have cut one off; nobody can store that.
_HALVES = re.compile(rb"\\u[dD][89a-fA-F]")

Message = dict[str, Any]


class StdioTransport:
    """What is no message is answered with an error, without an id: nobody knows which one it had."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._held = bytearray()
        self._sending = asyncio.Lock()

    async def receive(self) -> Message | None:
        """The next message; None at the end of the input."""
        while (line := await self._line()) is not None:
            if isinstance(message := _parsed(line), RequestError):
                await self.send({"jsonrpc": "2.0", "id": None, "error": message.to_error_obj()})
            elif message is not None:
                return message
        return None

    async def send(self, message: Message) -> None:
        line = json.dumps(_without_inputs(message), separators=(",", ":"), default=str).encode() + b"\n"
        async with self._sending:
            self._writer.write(line)
            await self._writer.drain()

    async def close(self) -> None:
        """What was sent is written first."""
        with suppress(OSError):
            self._writer.close()
            await self._writer.wait_closed()

    async def _line(self) -> bytes | None:
        """Without its end. A line that is too long is read to its end, and comes back empty of all but its length."""
        looked_at = length = 0
        while (end := self._held.find(b"\n", looked_at)) < 0:
            length += len(self._held) - looked_at
            looked_at = len(self._held)
            if length > MAX_LINE_BYTES:
                self._held.clear()
                looked_at = 0
            chunk = await self._reader.read(CHUNK_BYTES)
            if not chunk:
                return None
            self._held += chunk
        line = bytes(self._held[:end])
        del self._held[: end + 1]
        return b" " * (MAX_LINE_BYTES + 1) if length > MAX_LINE_BYTES else line


def _parsed(line: bytes) -> Message | RequestError | None:
    """None for an empty line."""
    if len(line) > MAX_LINE_BYTES:
        return RequestError(-32700, f"a message may have {MAX_LINE_BYTES // 1024 // 1024} MiB at most")
    if not line.strip():
        return None
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        return RequestError(-32700, "this is no JSON; each message is one line of it")
    if _HALVES.search(line):
        message = json.loads(json.dumps(message, ensure_ascii=False).encode(errors="replace"))
    if not isinstance(message, dict):
        return RequestError(-32600, "this is no message: it must be a JSON object")
    return cast(Message, message)


def _without_inputs(message: Message) -> Message:
    """What is wrong with a request is told without the whole of what came, which may be long."""
    data = message.get("error", {}).get("data")
    if isinstance(data, dict) and isinstance(faults := cast(Message, data).get("errors"), list):
        kept = [{key: fault.get(key) for key in ("loc", "msg")} for fault in cast(list[Message], faults)[:10]]
        return {**message, "error": {**message["error"], "data": {"errors": kept}}}
    return message


@asynccontextmanager
async def stdio() -> AsyncGenerator[StdioTransport]:
    """This process's, taken from everybody else in it: what is printed goes to stderr, and no child reads along."""
    own_input, own_output = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    os.close(nothing)
    try:
        reader, reading = await _read_from(own_input)
        writer = await _write_to(own_output)
    except ValueError as e:
        raise BadInput("standard input and output must be pipes", hint="an editor starts this: docs/editors.md") from e
    transport = StdioTransport(reader, writer)
    try:
        yield transport
    finally:
        reading.close()
        await transport.close()


async def _read_from(descriptor: int) -> tuple[asyncio.StreamReader, asyncio.ReadTransport]:
    reader = asyncio.StreamReader()
    protocol = asyncio.StreamReaderProtocol(reader)
    pipe = os.fdopen(descriptor, "rb", buffering=0)
    reading, _ = await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, pipe)
    return reader, reading


async def _write_to(descriptor: int) -> asyncio.StreamWriter:
    protocol = asyncio.StreamReaderProtocol(asyncio.StreamReader())  # only its flow control is used
    pipe = os.fdopen(descriptor, "wb", buffering=0)
    loop = asyncio.get_running_loop()
    writing, _ = await loop.connect_write_pipe(lambda: protocol, pipe)
    return asyncio.StreamWriter(writing, protocol, None, loop)
