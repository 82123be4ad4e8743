"""The terminals of a program: commands that run beside it in the sandbox, and whose output it looks at.

Each is a service of the sandbox, not a command with a time-out: a command that is late takes all others with it, the
program itself among them.
"""

from __future__ import annotations

import asyncio
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


@dataclass(slots=True)
class Terminal:
    """`exit_code` is None while it runs, and of one that was killed."""

    service: Service
    nonce: bytes
    max_bytes: int
    output: bytearray = field(default_factory=bytearray)
    is_cut: bool = False
    exit_code: int | None = None
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    hearing: asyncio.Task[None] | None = None

    async def hear(self) -> None:
        left = MAX_SAID_BYTES
        try:
            while data := await self.service.receive():
                self.output += data
                left -= len(data)
                if self._found_end():
                    break
                room = self.max_bytes + len(self.nonce) + 16
                if len(self.output) > room:
                    del self.output[: len(self.output) - room]
                    self.is_cut = True
                if left < 0:
                    await self.service.stop()
                    break
        except SandboxError:
            pass  # whoever uses the sandbox next is told
        finally:
            self.ended.set()

    def _found_end(self) -> bool:
        at = self.output.rfind(self.nonce)
        code = bytes(self.output[at + len(self.nonce) :])
        if at < 0 or not code.endswith(b";") or not code[:-1].isdigit():
            return False
        self.exit_code = int(code[:3].rstrip(b";"))
        del self.output[at:]
        return True

    def text(self) -> str:
        """Its end, from the beginning of a character on."""
        return bytes(self.output[-self.max_bytes :]).decode("utf-8", "ignore" if self.is_cut else "replace")


class Terminals:
    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox
        self._open: dict[str, Terminal] = {}
        self._count = 0

    @property
    def is_at_work(self) -> bool:
        return any(not terminal.ended.is_set() for terminal in self._open.values())

    async def start(self, command: str, cwd: str, env: Mapping[str, str], *, max_bytes: int) -> str:
        if len(self._open) >= MAX_TERMINALS:
            raise ToolError(f"there are {MAX_TERMINALS} terminals; release one")
        nonce = secrets.token_hex(16)
        argv = ["python3", "-I", "-c", PROGRAM, nonce, "sh", "-c", command]
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
