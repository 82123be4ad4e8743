"""`muster batch run` as a person has it: killed, it is run again, and joins what is under way."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from envelope.errors import ExitCode

from .server import die_with_parent


@dataclass
class BatchCommand:
    """`codes`: how its runs ended, those that were killed from here apart."""

    file: Path
    environment: Mapping[str, str]
    log: Path
    codes: Counter[int] = field(default_factory=Counter[int])
    killed: int = 0
    at_work: asyncio.Event = field(default_factory=asyncio.Event)  # has heard of a first shard
    _process: asyncio.subprocess.Process | None = None

    async def run(self, *, over: frozenset[int]) -> int:
        """Until it ends by itself with one of these codes. Where the fleet was to blame, it is run again."""
        while True:
            code = await self._once()
            if code == -signal.SIGKILL:
                continue
            self.codes[code] += 1
            if code in over:
                return code
            assert code == ExitCode.INFRASTRUCTURE, f"it ended with {code}; see {self.log}"

    def kill(self) -> bool:
        if self._process is None or self._process.returncode is not None:
            return False
        self._process.kill()
        self.killed += 1
        return True

    async def _once(self) -> int:
        with self.log.open("ab") as log:
            process = self._process = await asyncio.create_subprocess_exec(
                *(Path(sys.executable).with_name("muster"), "batch", "run", self.file, "--no-input"),
                env=self.environment, cwd=self.file.parent,
                stdin=asyncio.subprocess.DEVNULL, stdout=log, stderr=asyncio.subprocess.PIPE,
                preexec_fn=die_with_parent,
            )  # fmt: skip
            assert process.stderr
            while line := await process.stderr.readline():
                log.write(line)
                if b"recipe" in line:
                    self.at_work.set()
            return await process.wait()
