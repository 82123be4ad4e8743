"""Other agent libraries in front of the same model server: pydantic-ai with a tool that reads in its own process,
mini-swe-agent with its shell.

Each module has `converse(url, turns)`: one whole conversation.
"""

from __future__ import annotations

import importlib.util

from ..agent_fleet import model_server
from ..agent_scripts import calls
from ..queue import Process, Row

# name → the library that it needs
PEERS = {"pydantic_ai": "pydantic_ai", "mini_swe_agent": "minisweagent"}
RUNS = 3


async def peer(name: str) -> Row:
    """CPU of a turn at 50 and at 10 of them; no figures where the library is not installed."""
    if importlib.util.find_spec(PEERS[name]) is None:
        print(f"{name} is not installed (make .venv/.bench), and left out", flush=True)
        return {}
    async with model_server(calls("")) as url:
        process = await Process.start("benchmarks.agent_peers", name, f"{url}/v1", RUNS)
        row = await process.line()
        await process.end()
    return row
