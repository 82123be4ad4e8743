"""The terminals of a program: commands that run beside it in the sandbox, and whose output it looks at.

Each is a service of the sandbox, not a command with a time-out: a command that is late takes all others with it, the
program itself among them.
"""

from __future__ import annotations

import asyncio
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from sandbox.base import MIB, Sandbox, Service
from sandbox.errors import SandboxError

from ..tools.errors import ToolError
from .inside import terminal

PROGRAM = Path(terminal.__file__).read_text("utf-8")
MAX_TERMINALS = 32
MAX_OUTPUT_BYTES = 1 * MIB  # as for a command of our own
# No log is so long; what says more is ended, for each byte of it comes to this process.
MAX_SAID_BYTES = 256 * MIB
LONGEST_CODE = len(b"255;")


@dataclass(slots=True)
class Terminal:
    """`exit_code` is None while it runs, and of one that was killed. What a command leaves in the background may go on
    after it has ended; nobody sees what that says."""

    service: Service
    nonce: bytes
    max_bytes: int
    output: bytearray = field(default_factory=bytearray)
    is_cut: bool = False
    exit_code: int | None = None
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    hearing: asyncio.Task[None] | None = None

    async def hear(self) -> None:
        """To the end of whatever may write here; the command may have `ended` long before."""
        said_bytes = 0
        try:
            while data := await self.service.receive():
                said_bytes += len(data)
                if not self.ended.is_set():
                    self._take(data)
                if said_bytes > MAX_SAID_BYTES:
                    await self.service.stop()
                    break
        except SandboxError:
            pass  # whoever uses the sandbox next is told
        finally:
            self.ended.set()

    def _take(self, data: bytes) -> None:
        """The end may come in two pieces, and with words of what is left in the background behind it."""
        looked_at = max(0, len(self.output) - len(self.nonce) - LONGEST_CODE)
        self.output += data
        if end := re.compile(re.escape(self.nonce) + rb"(\d{1,3});").search(self.output, looked_at):
            self.exit_code = int(end[1])
            del self.output[end.start() :]
            self.ended.set()
        room = self.max_bytes + (0 if self.ended.is_set() else len(self.nonce) + LONGEST_CODE)
        if len(self.output) > room:
            del self.output[: len(self.output) - room]
            self.is_cut = True

    def look(self) -> tuple[str, bool]:
        """Its end, from the beginning of a character on; and whether that is not all."""
        too_many = len(self.output) - self.max_bytes
        is_cut = self.is_cut or too_many > 0
        return bytes(self.output[max(0, too_many) :]).decode("utf-8", "ignore" if is_cut else "replace"), is_cut


class Terminals:
    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox
        self._open: dict[str, Terminal] = {}
        self._count = 0
        self._starting = asyncio.Lock()

    @property
    def is_at_work(self) -> bool:
        return any(not terminal.ended.is_set() for terminal in self._open.values())

    async def start(self, command: str, cwd: str, env: Mapping[str, str], *, max_bytes: int) -> str:
        """Its name; it keeps the last `max_bytes` of what the command says. `ToolError` for one too many."""
        nonce = secrets.token_hex(16)
        argv = ["python3", "-I", "-c", PROGRAM, nonce, "sh", "-c", command]
        async with self._starting:  # two at once would both find room for one
            if len(self._open) >= MAX_TERMINALS:
                raise ToolError(f"there are {MAX_TERMINALS} terminals; release one")
            service = await self._sandbox.start(argv, cwd=cwd, env=env)
            self._count += 1
            name = f"terminal-{self._count}"
            opened = self._open[name] = Terminal(service, nonce.encode(), min(max_bytes, MAX_OUTPUT_BYTES))
            opened.hearing = asyncio.create_task(opened.hear())
        return name

    def named(self, name: str) -> Terminal:
        if name not in self._open:
            raise ToolError(f"there is no terminal {name[:100]!r}")
        return self._open[name]

    async def kill(self, name: str) -> None:
        opened = self.named(name)
        await opened.service.stop()
        await opened.ended.wait()

    async def release(self, name: str) -> None:
        await self.kill(name)
        self._open.pop(name, None)  # two may have asked for it at once

    async def close(self) -> None:
        """The sandbox ends what runs; nobody listens any more."""
        hearing = [opened.hearing for opened in self._open.values() if opened.hearing]
        for task in hearing:
            task.cancel()
        await asyncio.gather(*hearing, return_exceptions=True)
