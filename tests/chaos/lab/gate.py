"""The way from a process to its Redis, on which it dies at a chosen write: before the server has it, or after that."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

from .server import Server

# A script may write; which do is not worth knowing.
SCRIPTS = {b"eval", b"evalsha"}
CHUNK_BYTES = 1 << 16


@dataclass(frozen=True, slots=True)
class Fate:
    """`taken`: the server has done that write, and nobody heard of it; else it never got it."""

    at_write: int
    taken: bool


@dataclass(slots=True)
class Gate:
    """`writes`: how many came so far. `kill` is called at the fated one; from then on nothing passes."""

    writing: frozenset[bytes]
    server: Server
    kill: Callable[[], None] = lambda: None
    fate: Fate | None = None
    writes: int = 0
    port: int = 0
    _is_shut: bool = False
    _carrying: set[asyncio.Task[None]] = field(default_factory=set[asyncio.Task[None]])

    @property
    def url(self) -> str:
        return self.server.url_of("orchestrator", port=self.port)

    def let_live(self, kill: Callable[[], None], fate: Fate | None) -> None:
        """For the next process."""
        self.kill, self.fate, self.writes, self._is_shut = kill, fate, 0, False

    async def carry(self, near: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
        far, onward = await asyncio.open_connection("127.0.0.1", self.server.port)
        answering = asyncio.create_task(_pump(far, back))
        try:
            while not self._is_shut and (command := await _command(near)):
                words, raw = command
                if words[0].lower() in self.writing and await self._is_fatal(raw, far, onward, answering):
                    return
                onward.write(raw)
                await onward.drain()
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            answering.cancel()
            onward.close()
            back.close()

    async def _is_fatal(
        self, raw: bytes, far: asyncio.StreamReader, onward: asyncio.StreamWriter, answering: asyncio.Task[None]
    ) -> bool:
        self.writes += 1
        if self._is_shut or self.fate is None or self.writes != self.fate.at_write:
            return self._is_shut
        self._is_shut = True
        if self.fate.taken:
            answering.cancel()
            await asyncio.gather(answering, return_exceptions=True)
            onward.write(raw + b"*2\r\n$4\r\nPING\r\n$9\r\n<<taken>>\r\n")
            await far.readuntil(b"<<taken>>")  # a server answers in order
        self.kill()
        return True


async def _command(source: asyncio.StreamReader) -> tuple[list[bytes], bytes] | None:
    """The next one, as words and as it came; None at the end."""
    head = await source.readline()
    if not head:
        return None
    raw, words = [head], list[bytes]()
    for _ in range(int(head[1:])):
        size = await source.readuntil(b"\r\n")
        word = await source.readexactly(int(size[1:]) + 2)
        raw += [size, word]
        words.append(word[:-2])
    return words, b"".join(raw)


async def _pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while chunk := await source.read(CHUNK_BYTES):
            sink.write(chunk)
            await sink.drain()


@asynccontextmanager
async def gate_to(server: Server) -> AsyncIterator[Gate]:
    names: list[bytes] = server.call("ACL", "CAT", "write")
    gate = Gate(frozenset(names) | SCRIPTS, server)
    listener = await asyncio.start_server(gate.carry, "127.0.0.1", 0, limit=CHUNK_BYTES)
    gate.port = listener.sockets[0].getsockname()[1]
    async with listener:
        yield gate
