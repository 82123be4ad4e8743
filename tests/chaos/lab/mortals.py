"""Lives of processes, one after the other, each ended by itself or by its gate."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from .gate import Fate, Gate
from .processes import ROOT
from .server import die_with_parent

KILLED = -signal.SIGKILL


class Mortals:
    def __init__(self, template: asyncio.subprocess.Process, gate: Gate, folder: Path) -> None:
        self.log = folder / "said.txt"
        self._template = template
        self._gate = gate
        self._pid: int | None = None

    async def live(self, deed: str, env: Mapping[str, str], fate: Fate | None = None, **arguments: Any) -> int:
        """To its end: its exit code, or `KILLED`. All that it said is in `log`."""
        await self.begin(deed, env, fate, **arguments)
        return await self.end()

    async def begin(self, deed: str, env: Mapping[str, str], fate: Fate | None = None, **arguments: Any) -> None:
        self.log.unlink(missing_ok=True)
        self._gate.let_live(self.kill, fate)
        told = {"MUSTER_REDIS_URL": self._gate.url, **env}
        order = {"deed": deed, "env": told, "log": str(self.log), "arguments": arguments}
        assert self._template.stdin
        self._template.stdin.write(json.dumps(order).encode() + b"\n")
        self._pid = await self.hear("pid")

    async def end(self) -> int:
        code = await self.hear("ended")
        self._pid = None
        return code

    def kill(self) -> None:
        """While it is not buried, which its end is told of, the number is its own."""
        if self._pid is not None:
            with suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGKILL)

    async def hear(self, what: str) -> Any:
        """The next that the process, or the template about it, says of this kind."""
        assert self._template.stdout
        while line := await self._template.stdout.readline():
            if what in (said := json.loads(line)):
                return said[what]
        raise AssertionError("the template has ended")


@asynccontextmanager
async def mortals(folder: Path, gate: Gate) -> AsyncIterator[Mortals]:
    search = [str(Path(__file__).parents[1]), str(ROOT)]
    kept = {name: value for name, value in os.environ.items() if not name.startswith("MUSTER_")}
    template = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "lab.mortal",
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
        env={**kept, "HOME": str(folder), "PYTHONPATH": os.pathsep.join(search), "PYTHONSAFEPATH": "1"},
        preexec_fn=die_with_parent,
    )  # fmt: skip
    found = Mortals(template, gate, folder)
    try:
        await found.hear("ready")
        yield found
    finally:
        template.kill()
        await template.wait()
