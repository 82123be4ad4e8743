"""A request that goes on from the proxy with a credential, by https, and its answer on its way back.

Both sides are hostile: what came is read whole and written anew, so that nobody's idea of where a request ends can
differ from ours. One request for each connection. The one place that names h11.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

import h11

from .outlet import Credential
from .veil import Veil

CHUNK_BYTES = 64 * 1024  # what a pipe or socket buffer holds
MAX_HEAD_BYTES = 64 * 1024  # as the proxy takes from the client
SHOWN_REQUEST_CHARS = 200  # for a log
# Of one connection, and none of the next one's.
HOP_BY_HOP = frozenset({b"connection", b"keep-alive", b"proxy-connection", b"te", b"trailer", b"upgrade"})
# What would have the answer come in a form that cannot be looked through: packed, or in pieces of the client's choice.
UNSEEN = frozenset({b"accept-encoding", b"range", b"if-range"})
NOT_ASKED = HOP_BY_HOP | UNSEEN | {b"host", b"expect", b"proxy-authorization"}
# A cookie that the credential bought is as good as the credential; the others send the client to https by itself.
NOT_ANSWERED = HOP_BY_HOP | {b"transfer-encoding", b"set-cookie", b"strict-transport-security", b"alt-svc"}

Headers = list[tuple[bytes, bytes]]
Event = Any  # h11 has no common type of its events


class Unfit(Exception):
    """The sentence that the client gets to read."""


@dataclass(frozen=True, slots=True)
class Stream:
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter


class Carried:
    """One request whose head has been read."""

    def __init__(self, credential: Credential, head: bytes) -> None:
        """`Unfit` for what is no request that may go on."""
        self._credential = credential
        self._veil = Veil(sorted(credential.secrets, key=len, reverse=True))
        self._client = h11.Connection(h11.SERVER, MAX_HEAD_BYTES)
        self._server = h11.Connection(h11.CLIENT, MAX_HEAD_BYTES)
        self._client.receive_data(head)
        try:
            asked: Event = self._client.next_event()
            headers = self._asked(asked.headers)
            self._request = h11.Request(method=asked.method, target=_path(asked.target), headers=headers)
        except (h11.ProtocolError, ValueError) as error:
            raise Unfit("That is no HTTP request.") from error
        if asked.method == b"TRACE":  # its answer is the request, with all its headers
            raise Unfit("TRACE cannot go on with a credential.")

    @property
    def shown(self) -> str:
        """Method and path, without what is asked."""
        words = b"%b %b" % (self._request.method, self._request.target.partition(b"?")[0])
        return words.decode("latin-1")[:SHOWN_REQUEST_CHARS]

    async def carry(self, near: Stream, far: Stream) -> None:
        """To the end of the answer. `Unfit` while nothing of one has been passed on; a later failure just ends it."""
        sending = asyncio.create_task(self._ask(near, far))
        try:
            await self._answer(near, far)
        except (h11.ProtocolError, OSError) as error:
            if self._client.our_state is h11.SEND_RESPONSE:
                raise Unfit(f"{self._credential.place} gave no proper answer.") from error
        finally:
            sending.cancel()  # a host may answer before it has heard all
            await asyncio.gather(sending, return_exceptions=True)

    async def _ask(self, near: Stream, far: Stream) -> None:
        try:
            event: Event = self._request
            while True:
                await _send(far, cast("bytes | None", self._server.send(event)))
                if isinstance(event, h11.EndOfMessage):
                    return
                event = await self._heard(near)
        except (h11.ProtocolError, OSError):
            far.writer.close()  # so that nobody waits for an answer to half a request

    async def _heard(self, near: Stream) -> Event:
        if self._client.they_are_waiting_for_100_continue:
            go_on = h11.InformationalResponse(status_code=100, headers=[])
            await _send(near, self._client.send(go_on))
        return await _next(self._client, near)

    async def _answer(self, near: Stream, far: Stream) -> None:
        while True:
            match await _next(self._server, far):
                case h11.Response() as response:
                    await _send(near, self._client.send(self._answered(response)))
                case h11.Data() as piece:
                    await self._pass_on(near, self._veil.feed(bytes(piece.data)))
                case h11.EndOfMessage():
                    await self._pass_on(near, self._veil.rest())
                    return await _send(near, self._client.send(h11.EndOfMessage()))
                case h11.InformationalResponse():
                    pass  # between the host and us
                case _:
                    raise h11.RemoteProtocolError("the connection ended")

    async def _pass_on(self, near: Stream, data: bytes) -> None:
        if data:
            await _send(near, self._client.send(h11.Data(data)))

    def _asked(self, headers: Iterable[tuple[bytes, bytes]]) -> Headers:
        own = self._credential.header.lower().encode()
        given = list(headers)
        # Of two lengths one is another's idea of where the request ends.
        left_out = {own, b"content-length"} if any(name == b"transfer-encoding" for name, _ in given) else {own}
        kept = [(name, value) for name, value in given if name not in NOT_ASKED | left_out]
        return [
            (b"Host", self._credential.place.encode()),
            (b"Accept-Encoding", b"identity"),
            (b"Connection", b"close"),
            (self._credential.header.encode(), self._credential.value.encode()),
            *kept,
        ]

    def _answered(self, response: h11.Response) -> h11.Response:
        given = list(response.headers)
        if any(name == b"content-encoding" and value.lower() != b"identity" for name, value in given):
            raise h11.RemoteProtocolError("an answer that cannot be looked through")
        passed = [(name, self._nearer(name, value)) for name, value in given if name not in NOT_ANSWERED]
        kept = [(name, self._veil.whole(value)) for name, value in passed]
        reason = self._veil.whole(bytes(response.reason))
        return h11.Response(status_code=response.status_code, reason=reason, headers=[*kept, (b"Connection", b"close")])

    def _nearer(self, name: bytes, value: bytes) -> bytes:
        """A redirect within the host leads to where the client can follow it."""
        own = f"https://{self._credential.place}/".encode()
        return value.replace(b"https", b"http", 1) if name == b"location" and value.startswith(own) else value


def tls_for(credential: Credential) -> ssl.SSLContext:
    """By this host's authorities, or the operator's own for this one."""
    try:
        return _context(credential.ca_file)
    except OSError as error:
        raise Unfit(f"The authorities for {credential.place} cannot be read.") from error


@lru_cache(maxsize=16)  # reading a hundred authorities takes longer than a request
def _context(ca_file: Path | None) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=ca_file)


async def _next(connection: h11.Connection, stream: Stream) -> Event:
    while (event := connection.next_event()) is h11.NEED_DATA:
        connection.receive_data(await stream.reader.read(CHUNK_BYTES))
    return event


async def _send(stream: Stream, data: bytes | None) -> None:
    if data:
        stream.writer.write(data)
        await stream.writer.drain()


def _path(target: bytes) -> bytes:
    url = urlsplit(target.decode("latin-1"))
    path = (url.path or "/") + (f"?{url.query}" if url.query else "")
    return path.encode("latin-1")
