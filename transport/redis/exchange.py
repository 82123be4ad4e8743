"""What is said over a connection that stands: commands out, their replies in.

The library's own way, a stream that a parser reads from, takes three turns of the event loop for each reply, and as
much processor time again as this.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, cast

import hiredis
from redis.exceptions import ConnectionError, InvalidResponse

Command = tuple[str | bytes | int | float, ...]

CLOSED = "the server closed the connection"

# its stub knows commands of one word only
_packed = cast(Callable[[Command], bytes], hiredis.pack_command)  # pyright: ignore[reportUnknownMemberType]


class Exchange(asyncio.Protocol):
    """Takes the transport over. Holds one conversation at a time; one that was broken off is not to be gone on with."""

    def __init__(
        self, transport: asyncio.Transport, refusal: Callable[[str], Exception], *, early: bytes, is_lost: bool
    ) -> None:
        """`refusal` makes an exception of an error that the server replies; `early` came in before the takeover, and
        perhaps the end (`is_lost`)."""
        self._transport = transport
        self._reader = hiredis.Reader(protocolError=InvalidResponse, replyError=refusal)
        self._replies: list[Any] = []
        self._wanted = 0
        self._answered: asyncio.Future[None] | None = None
        self.is_lost = is_lost or transport.is_closing()  # nothing can be said any more
        self._reader.feed(early)
        transport.set_protocol(self)

    @property
    def certificate_ends_at(self) -> str:
        """As it stands in the server's certificate; empty where there is none, or nobody has looked at it."""
        shown: dict[str, str] = self._transport.get_extra_info("peercert") or {}
        return shown.get("notAfter", "")

    async def ask(self, commands: Sequence[Command], timeout_s: float) -> list[Any]:
        """The replies, of which some may be exceptions; raises when they do not come, `TimeoutError` after a while."""
        self._transport.write(b"".join(map(_packed, commands)))
        self._replies, self._wanted = [], len(commands)
        loop = asyncio.get_running_loop()
        self._answered = loop.create_future()
        # a fifth of what `asyncio.timeout` takes, which has to find out whose cancellation it was
        timer = loop.call_later(timeout_s, self._fail, TimeoutError())
        self._read()
        if self.is_lost:
            self._fail(ConnectionError(CLOSED))
        try:
            await self._answered
        finally:
            timer.cancel()
            self._answered = None
        return self._replies

    def data_received(self, data: bytes) -> None:
        self._reader.feed(data)
        self._read()

    def eof_received(self) -> None:
        self.connection_lost(None)

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_lost = True
        self._fail(ConnectionError(str(exc or CLOSED)))

    def _read(self) -> None:
        if self._answered is None or self._answered.done():
            self.is_lost = True  # nobody has asked: what comes would stand as the answer to something else
            return
        try:
            while len(self._replies) < self._wanted and (reply := self._reader.gets()) is not False:
                self._replies.append(reply)
        except InvalidResponse as error:
            self._fail(error)
            return
        if len(self._replies) == self._wanted:
            self.is_lost = self.is_lost or self._reader.has_data()
            self._answered.set_result(None)

    def _fail(self, error: Exception) -> None:
        if self._answered is not None and not self._answered.done():
            self._answered.set_exception(error)
