"""The client's end of the tool server's stream. Nothing that comes out of a sandbox is believed.

Frames are described in toolserver/server.py. Lengths are checked before anything is read into memory, headers are
decoded strictly, and whatever does not fit the protocol ends the channel.
"""

from __future__ import annotations

import asyncio
import json
import struct
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol, cast

from .errors import LimitExceeded, PathError, SandboxError, SandboxLost

LENGTHS = struct.Struct("!II")
MAX_REPLY_HEADER_BYTES = 64 * 1024  # numbers and one path; files and output are bodies
MAX_REPLY_BODY_BYTES = 64 * 1024  # the server's chunk
MAX_REQUEST_HEADER_BYTES = 1024 * 1024  # likewise: a command line and its environment
MAX_REQUEST_BODY_BYTES = 64 * 1024 * 1024  # the server's own limit
GRACE_S = 5.0  # the server's time-out comes first; a client that still waits after this has lost its server

ERRORS: Mapping[str, type[SandboxError]] = {"path": PathError, "limit": LimitExceeded, "request": SandboxError}


class ByteStream(Protocol):
    """A connection to PID 1: `read` gives b"" at the end, and `complaint` is what it last said on standard error."""

    complaint: bytes

    async def read(self) -> bytes: ...
    async def write(self, data: bytes) -> None: ...
    async def close(self) -> None: ...


Header = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Reply:
    header: Header
    body: bytes


@dataclass(slots=True)
class _Call:
    done: asyncio.Future[Header]
    max_bytes: int
    on_data: Callable[[bytes], None] | None
    body: bytearray

    def take(self, data: bytes) -> None:
        if len(self.body) + len(data) > self.max_bytes:
            raise SandboxLost("The sandbox sent more than it was asked for, and was stopped.")
        self.body += data
        if self.on_data is not None and data:
            self.on_data(data)


class Channel:
    """Many calls at once over one stream. After the first fault every call raises `SandboxLost`."""

    def __init__(self, stream: ByteStream, on_lost: Callable[[], None]) -> None:
        """`on_lost` is called once, from the event loop: the container is of no use any more and should be killed."""
        self._stream = stream
        self._on_lost = on_lost
        self._calls: dict[int, _Call] = {}
        self._next_id = 1
        self._lost: SandboxLost | None = None
        self._ready: asyncio.Future[Header] = asyncio.get_running_loop().create_future()
        self._calls[0] = _Call(self._ready, 0, None, bytearray())
        self._reader = asyncio.create_task(self._read_for_ever())

    async def ready(self, timeout_s: float) -> None:
        """Until the server has said that it listens."""
        await self._answer(0, self._ready, timeout_s)

    async def call(
        self,
        op: str,
        arguments: Mapping[str, Any],
        *,
        body: bytes = b"",
        timeout_s: float,
        max_bytes: int,
        on_data: Callable[[bytes], None] | None = None,
    ) -> Reply:
        """One request and its whole reply, of at most `max_bytes`. A cancelled call cancels its command inside."""
        if self._lost is not None:
            raise self._lost
        if len(body) > MAX_REQUEST_BODY_BYTES:
            raise LimitExceeded(f"{len(body)} bytes are more than one request to a sandbox may carry.")
        call_id, self._next_id = self._next_id, self._next_id + 1
        call = _Call(asyncio.get_running_loop().create_future(), max_bytes, on_data, bytearray())
        self._calls[call_id] = call
        try:
            await self._write(_request({**arguments, "id": call_id, "op": op}, body))
            header = await self._answer(call_id, call.done, timeout_s)
        except asyncio.CancelledError:
            await self._cancel(call_id)
            raise
        finally:
            self._calls.pop(call_id, None)
        return Reply(_checked(header), bytes(call.body))

    def give_up(self) -> None:
        """Fail every call from now on, and report no loss: whoever closes the sandbox knows."""
        self._on_lost = lambda: None
        self._fail(SandboxLost("The sandbox was closed."))

    async def close(self) -> None:
        self.give_up()
        self._reader.cancel()
        await asyncio.gather(self._reader, return_exceptions=True)
        await self._stream.close()

    async def _answer(self, call_id: int, done: asyncio.Future[Header], timeout_s: float) -> Header:
        try:
            async with asyncio.timeout(timeout_s + GRACE_S):
                return await done
        except TimeoutError as timeout:
            self._fail(SandboxLost(f"The sandbox did not answer within {timeout_s + GRACE_S:.0f} s, and was stopped."))
            raise self._lost or timeout from timeout
        finally:
            self._calls.pop(call_id, None)

    async def _cancel(self, call_id: int) -> None:
        """Tell the server, and do not wait: an unanswered cancel is answered by closing the sandbox."""
        if self._lost is None:
            cancel_id, self._next_id = self._next_id, self._next_id + 1
            with suppress(SandboxLost):  # then there is nothing left to cancel
                await self._write(encode({"id": cancel_id, "op": "cancel", "target": call_id}, b""))

    async def _write(self, data: bytes) -> None:
        try:
            await self._stream.write(data)
        except (OSError, RuntimeError) as error:
            self._fail(SandboxLost("The sandbox is gone."))
            raise self._lost or error from error

    async def _read_for_ever(self) -> None:
        buffer = bytearray()
        try:
            while data := await self._stream.read():
                buffer += data
                for header, body in decode(buffer):
                    self._dispatch(header, body)
            said = self._stream.complaint.decode(errors="replace").strip().rpartition("\n")[2]
            hint = f"its last words: {said}" if said else "it ran out of memory or time, or was removed"
            self._fail(SandboxLost("The sandbox is gone.", hint=hint))
        except SandboxLost as fault:
            self._fail(fault)
        except OSError as error:
            self._fail(SandboxLost(f"The connection to the sandbox broke: {error}."))

    def _dispatch(self, header: Header, body: bytes) -> None:
        call = self._calls.get(_integer(header, "id"))
        if call is None:
            return  # its caller has given up
        if header.get("type") == "data":
            try:
                call.take(body)
            except SandboxLost:
                raise
            except Exception as error:  # the caller's own callback: its call fails with it, the other calls go on
                self._calls.pop(header["id"], None)
                call.done.set_exception(error)
        elif not call.done.done():
            call.done.set_result(header)

    def _fail(self, fault: SandboxLost) -> None:
        if self._lost is not None:
            return
        self._lost = fault
        for call in self._calls.values():
            if not call.done.done():
                call.done.set_exception(fault)
                call.done.exception()  # nobody may be waiting, as when a sandbox is closed while it opens
        self._calls.clear()
        self._on_lost()


def _request(header: Header, body: bytes) -> bytes:
    """What the server would end over is not sent."""
    frame = encode(header, body)
    if len(frame) - len(body) - LENGTHS.size > MAX_REQUEST_HEADER_BYTES:
        raise LimitExceeded("A command and its environment may have 1 MiB: write more to a file, and run that.")
    return frame


def encode(header: Header, body: bytes) -> bytes:
    encoded = json.dumps(header).encode()
    return LENGTHS.pack(len(encoded), len(body)) + encoded + body


def decode(buffer: bytearray) -> list[tuple[Header, bytes]]:
    """Take the whole frames off the front of `buffer`. `SandboxLost` when they are not frames of ours."""
    frames: list[tuple[Header, bytes]] = []
    position = 0
    while len(buffer) - position >= LENGTHS.size:
        header_bytes, body_bytes = LENGTHS.unpack_from(buffer, position)
        if header_bytes > MAX_REPLY_HEADER_BYTES or body_bytes > MAX_REPLY_BODY_BYTES:
            raise SandboxLost("The sandbox sent a frame that is too large, and was stopped.")
        start = position + LENGTHS.size
        end = start + header_bytes + body_bytes
        if len(buffer) < end:
            break
        header = _header(bytes(buffer[start : start + header_bytes]))
        frames.append((header, bytes(buffer[start + header_bytes : end])))
        position = end
    del buffer[:position]
    return frames


def _header(encoded: bytes) -> Header:
    try:
        header: object = json.loads(encoded)
    except (ValueError, RecursionError) as error:
        raise SandboxLost("The sandbox sent something that is no frame, and was stopped.") from error
    if not isinstance(header, dict):
        raise SandboxLost("The sandbox sent a frame without a header, and was stopped.")
    return cast(Header, header)


def _checked(header: Header) -> Header:
    if header.get("type") != "error":
        return header
    message = str(header.get("message")).encode("utf-8", "backslashreplace").decode()
    raise ERRORS.get(str(header.get("code")), SandboxError)(message)


def _integer(header: Header, key: str) -> int:
    value = header.get(key)
    if type(value) is not int:
        raise SandboxLost("The sandbox sent a frame without an id, and was stopped.")
    return value
