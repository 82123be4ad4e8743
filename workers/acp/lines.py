"""The conversation with a program in the sandbox: one JSON-RPC message a line, none of which is believed."""

from __future__ import annotations

import asyncio
import json
import re
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, cast

from sandbox.base import MIB, Service
from sandbox.errors import SandboxError

from ..duck import Splitter, is_light

# A longer line is no message that anybody could use. A file that is written through us is in one.
MAX_LINE_BYTES = 16 * MIB
# All that a program says in a task. Hours of work of a busy one, with every file that it shows, are a tenth of this.
MAX_SAID_BYTES = 1024 * MIB
# Lines that are no message: banners and warnings of its libraries. More of them, and it speaks something else.
MAX_ODD_LINES = 200
# Values in one message, and how deep they lie in each other. The largest that is known, a list of all models, has some
# thousands; half a million of them hold this process, and all of its tasks, for seconds.
MAX_VALUES = 50_000
MAX_DEPTH = 100
# Requests of the program that have no answer yet.
MAX_OPEN_REQUESTS = 64

HALF_A_CHARACTER = re.compile(rb"\\u[dD][89a-fA-F]")
UNREADABLE = {"code": -32603, "message": "an error that is none of the protocol's"}

Json = dict[str, Any]


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
            if not is_light(line, MAX_VALUES):
                self.fault = f"it floods: a message has more than {MAX_VALUES} values"
                return
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
        if HALF_A_CHARACTER.search(line):  # JavaScript cuts texts in the middle of one; nothing of ours can hold it
            found = json.loads(json.dumps(found, ensure_ascii=False).encode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict):
        return None
    message = cast(Json, found)
    if _is_deep(message):
        return None
    if isinstance(message.get("method"), str):
        return message if _is_id(message) else None
    if "method" in message or type(message.get("id")) is not int:
        return None
    return message if _is_error(message.get("error")) else message | {"error": UNREADABLE}


def _is_deep(message: object) -> bool:
    layer: list[object] = [message]
    for _ in range(MAX_DEPTH):
        layer = [inner for each in layer for inner in _held(each) if type(inner) in (dict, list)]
        if not layer:
            return False
    return True


def _held(value: object) -> Iterable[object]:
    return cast(Json, value).values() if isinstance(value, dict) else cast(list[object], value)


def _is_error(error: object) -> bool:
    """None, or in the protocol's form: of any other the library makes an end without a word."""
    if error is None:
        return True
    told = cast(Json, error) if isinstance(error, dict) else Json()
    return type(told.get("code")) is int and isinstance(told.get("message"), str)


def _is_id(message: Json) -> bool:
    return "id" not in message or isinstance(message["id"], str | int)
