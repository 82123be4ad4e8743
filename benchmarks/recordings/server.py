"""A loopback server that answers with recorded bytes, cut and dressed as networks and gateways do."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

# What keeps a stream's meaning; `no_done` may take a part of it, and the oracle reads what is left.
DRESSES = ("plain", "bytes", "crlf", "comments", "no_space", "no_done", "no_end", "bom")
OF_JSON = ("plain", "bytes")
MAX_BODY_BYTES = 64 * 1024 * 1024
# So many pieces go out one by one; a longer body goes on in pieces of a hundred.
SINGLE_PIECES = 4096


@dataclass(frozen=True)
class Reply:
    status: int
    content_type: str
    body: bytes
    way: str = "plain"
    headers: tuple[tuple[str, str], ...] = ()


@dataclass
class Replayer:
    """`replies` by the first part of the path that is asked; `asked` has the bodies of the requests."""

    url: str = ""
    replies: dict[str, Reply] = field(default_factory=dict)
    asked: dict[str, list[Any]] = field(default_factory=dict)
    _served: int = 0
    _answering: dict[asyncio.Task[None], asyncio.StreamWriter] = field(default_factory=dict)

    def serve(self, reply: Reply) -> str:
        """The address of a reply."""
        self._served += 1
        self.replies[f"k{self._served}"] = reply
        return f"{self.url}/k{self._served}"

    def last_asked(self, url: str) -> Any:
        return self.asked[_key(urlsplit(url).path)][-1]

    def forget(self) -> None:
        self.replies.clear()
        self.asked.clear()

    def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._answer(reader, writer))
        self._answering[task] = writer
        task.add_done_callback(self._answering.pop)

    async def close(self) -> None:
        for writer in self._answering.values():
            writer.close()
        await asyncio.gather(*self._answering)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                key, body = await _request(reader)
                self.asked.setdefault(key, []).append(json.loads(body) if body else None)
                reply = self.replies[key]
                fields = [("Content-Type", reply.content_type), ("Transfer-Encoding", "chunked"), *reply.headers]
                head = [f"HTTP/1.1 {reply.status} Recorded", *(f"{name}: {value}" for name, value in fields)]
                writer.write("\r\n".join([*head, "", ""]).encode())
                for piece in pieces(reply.body, reply.way):
                    if writer.is_closing():  # the client has heard enough
                        return
                    writer.write(b"%x\r\n%b\r\n" % (len(piece), piece))
                    if reply.way != "plain":
                        await asyncio.sleep(0)  # the reader's turn
                writer.write(b"0\r\n\r\n")
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def replaying():
    replayer = Replayer()
    server = await asyncio.start_server(replayer.connected, "127.0.0.1", 0, limit=MAX_BODY_BYTES)
    replayer.url = "http://{}:{}".format(*server.sockets[0].getsockname()[:2])
    try:
        yield replayer
    finally:
        server.close()
        await replayer.close()


def _key(path: str) -> str:
    return re.split(r"[/:?]", path)[1]


async def _request(reader: asyncio.StreamReader) -> tuple[str, bytes]:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    key = _key(head.split()[1])
    if length := re.search(r"(?im)^content-length: *(\d+)", head):
        return key, await reader.readexactly(int(length[1]))
    body = b""
    if re.search(r"(?im)^transfer-encoding: *chunked", head):
        while size := int(await reader.readline(), 16):
            body += await reader.readexactly(size)
            await reader.readline()
        await reader.readline()
    return key, body


def dressed(body: bytes, way: str) -> bytes:
    """A stream with the same events, said otherwise."""
    body = re.sub(rb"\r\n|\r", b"\n", body) if way in ("crlf", "comments") else body
    match way:
        case "crlf":
            return body.replace(b"\n", b"\r\n")
        case "comments":
            noise = b": keep-alive\n\nid: 7\nretry: 3000\n\nevent: ping\n\n"
            return b": PROCESSING\n\n" + re.sub(rb"\n\n+", lambda end: end[0] + noise, body)
        case "no_space":
            return re.sub(rb"(?m)^data: ", b"data:", body)
        case "no_done":
            return re.sub(rb"data: ?\[DONE\]\s*", b"", body)
        case "no_end":
            return body.rstrip(b"\r\n")
        case "bom":
            return b"\xef\xbb\xbf" + body
    return body


def pieces(body: bytes, way: str) -> Iterable[bytes]:
    if way == "bytes":
        yield from (body[i : i + 1] for i in range(min(len(body), SINGLE_PIECES)))
        yield from (body[i : i + 100] for i in range(SINGLE_PIECES, len(body), 100))
    elif way == "crlf":  # between the two, too
        yield from filter(None, re.split(rb"(?<=\r)", body))
    elif body:
        yield body
