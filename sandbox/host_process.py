"""Programs of this host that the operator's installation needs: pip, docker, mmdebstrap. Never anybody's code."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Finished:
    exit_code: int
    stdout: bytes
    stderr: bytes


async def run(argv: Sequence[str], *, timeout_s: float, env: Mapping[str, str] | None = None) -> Finished:
    """Run to the end, without input; `env` is added to this process's environment.

    What it makes can be read by others where they can come there, as in a root file system.

    `TimeoutError` after `timeout_s`, `FileNotFoundError` for a program that is not there. However this ends, the
    program does not go on.
    """
    # fmt: off
    process = await asyncio.create_subprocess_exec(
        *argv, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        env={**os.environ, **(env or {})}, umask=0o022,
    )
    # fmt: on
    try:
        async with asyncio.timeout(timeout_s):
            stdout, stderr = await process.communicate()
    except BaseException:
        with suppress(ProcessLookupError):  # it may have ended in the same moment
            process.kill()
        await process.wait()
        raise
    return Finished(process.returncode or 0, stdout, stderr)
