"""Finding a symbol in a process of its own, which hostile source may cost its life and nothing else."""

from __future__ import annotations

import asyncio
import os
import resource
import sys

from .symbols import MAX_SOURCE_BYTES, lines_of

# Ten times what the largest honest source needs.
MAX_CPU_S = 5
MAX_MEMORY_BYTES = 1024 * 1024 * 1024
# On a machine that is busy with other things.
MAX_WAIT_S = 60.0


async def find_lines(source: bytes, symbol: str, language: str) -> tuple[int, int] | None:
    """As `lines_of`; None for source that cannot be read within bounds, too."""
    if len(source) > MAX_SOURCE_BYTES:
        return None
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", __name__, symbol, language),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env={"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "PYTHONSAFEPATH": "1"},
    )
    try:
        async with asyncio.timeout(MAX_WAIT_S):
            told, _ = await process.communicate(source)
    except TimeoutError:
        return None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    first, _, last = told.decode().partition(" ")
    return (int(first), int(last)) if process.returncode == 0 and last else None


def main(symbol: str, language: str) -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (MAX_CPU_S, MAX_CPU_S))
    resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY_BYTES, MAX_MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    found = lines_of(sys.stdin.buffer.read(), symbol, language)
    sys.stdout.write("" if found is None else f"{found[0]} {found[1]}")


if __name__ == "__main__":
    main(*sys.argv[1:])
