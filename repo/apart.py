"""Python of ours on hostile input, in a process of its own: the input may cost that one its life, and nothing else."""

from __future__ import annotations

import asyncio
import os
import sys

# On a machine that is busy with other things; the process bounds its own processor time and memory.
MAX_WAIT_S = 60.0


async def run_apart(module: str, *words: str, told: bytes) -> bytes | None:
    """What the module, run with these words, makes of `told`; None when it failed, or took too long."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", module, *words),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env={"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "PYTHONSAFEPATH": "1"},
    )
    try:
        async with asyncio.timeout(MAX_WAIT_S):
            answer, _ = await process.communicate(told)
    except TimeoutError:
        return None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return answer if process.returncode == 0 else None
