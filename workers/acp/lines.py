"""The conversation with a program in the sandbox: one JSON-RPC message a line, none of which is believed."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Callable
from typing import Any, cast

from sandbox.base import MIB, Service
from sandbox.errors import SandboxError

# A longer line is no message that anybody could use. A file that is written through us is in one.
MAX_LINE_BYTES = 16 * MIB
# All that a program says in a task. Hours of work of a busy one, with every file that it shows, are a tenth of this.
MAX_SAID_BYTES = 1024 * MIB
# Lines that are no message: banners and warnings of its libraries. More of them, and it speaks something else.
MAX_ODD_LINES = 200
# Requests of the program that have no answer yet.
MAX_OPEN_REQUESTS = 64

Json = dict[str, Any]


class Splitter:
    """Bytes as they come, as lines. Each byte is looked at once, however long its line gets; `rest` has no end yet."""

    def __init__(self) -> None:
        self.rest = bytearray()

    def take(self, data: bytes) -> list[bytes]:
        first, *more = data.split(b"\n")
        self.rest += first
        lines: list[bytes] = []
        for part in more:
            lines.append(bytes(self.rest))
            self.rest = bytearray(part)
        return lines


class Lines:
    """The official library's `Transport` over a service. `fault` says why the conversation ended, if not by itself.

    `is_usable` looks at what the program tells without being asked: what it turns down is dropped, and counts as odd.
    """

    def __init__(self, service: Service, is_usable: Callable[[Json], bool]) -> None:
        self._service = service
        self._is_usable = is_usable
        self._splitter = Splitter()
        self._ready: deque[Json] = deque()
        self._said_bytes = 0
        self._odd_lines = 0
        self._open_requests = 0
        self._fewer = asyncio.Condition()
        self._sending = asyncio.Lock()
        self.fault = ""
        self.heard = asyncio.Event()  # set by each message; whoever waits for one clears it

    async def send(self, message: Json) -> None:
        """`ConnectionError` to a program that is gone."""
        async with self._sending:
            try:
                await self._service.send(json.dumps(message, default=str).encode("utf-8", "replace") + b"\n")
            except SandboxError as error:
                self.fault = self.fault or f"it takes no more messages: {error}"
                raise ConnectionError(self.fault) from error
        if "method" not in message:
            await self._answered()

    async def receive(self) -> Json | None:
        """The next message; None at the end. A request is not handed out before there is room for one."""
        while not self._ready:
            try:
                data = b"" if self.fault else await self._service.receive()
            except SandboxError as error:
                self.fault = self.fault or f"its sandbox is gone: {error}"
                return None
            if not data:
                return None
            self._take(data)
        message = self._ready.popleft()
        if "method" in message and "id" in message:
            await self._asked()
        self.heard.set()
        await asyncio.sleep(0)  # what was said before is dealt with first, however fast the program speaks
        return message

    async def close(self) -> None:
        """Whoever started the service ends it."""

    def _take(self, data: bytes) -> None:
        self._said_bytes += len(data)
        lines = self._splitter.take(data)
        if max(map(len, (self._splitter.rest, *lines))) > MAX_LINE_BYTES or self._said_bytes > MAX_SAID_BYTES:
            self.fault = "it floods: a line, or all that it has said, is longer than any message may be"
            return
        for line in lines:
            if not line.strip():
                continue
            message = _parsed(line)
            if message is not None and ("id" in message or self._is_usable(message)):
                self._ready.append(message)
            else:
                self._odd_lines += 1
        if self._odd_lines > MAX_ODD_LINES:
            self.fault = "what it says is not the Agent Client Protocol"

    async def _asked(self) -> None:
        async with self._fewer:
            await self._fewer.wait_for(lambda: self._open_requests < MAX_OPEN_REQUESTS)
            self._open_requests += 1

    async def _answered(self) -> None:
        async with self._fewer:
            self._open_requests -= 1
            self._fewer.notify()


def _parsed(line: bytes) -> Json | None:
    try:
        found: object = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict):
        return None
    message = cast(Json, found)
    has_name = isinstance(message.get("method"), str)
    is_answer = "method" not in message and type(message.get("id")) is int
    return message if (has_name and _is_id(message)) or is_answer else None


def _is_id(message: Json) -> bool:
    return "id" not in message or isinstance(message["id"], str | int)
