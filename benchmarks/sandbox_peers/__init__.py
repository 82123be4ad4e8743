"""Other agents' sandboxes on the same image, each in a process of its own: mini-swe-agent's docker environment, and
SWE-ReX, whose server runs inside.

Each module has `opened(image)`: something that can `run(line)` and `close()`.
"""

from __future__ import annotations

import importlib.util

from ..queue import Process, Row

# name → the library that it needs
PEERS = {"mini_swe_agent": "minisweagent", "swe_rex": "swerex"}


async def peer(name: str, image: str, calls: int, together: int) -> Row:
    """What one command line takes there; no figures where the library is not installed."""
    if importlib.util.find_spec(PEERS[name]) is None:
        print(f"{name} is not installed (make .venv/.bench), and left out", flush=True)
        return {}
    process = await Process.start("benchmarks.sandbox_peers", name, image, calls, together)
    row = await process.line()
    await process.end()
    if "refused" in row:
        print(f"{name} is left out: {row['refused']}", flush=True)
        return {}
    return row
