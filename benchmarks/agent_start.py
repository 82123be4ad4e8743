"""From the command line to the first request that reaches the model's server, with workers up, and its stages.

Each is told by its end: the goal is submitted, the agent's worker has begun, the request has come.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path

from workers.llm.script import load_script
from workers.llm.scripted_server import ScriptedServer

from .agent_fleet import agent_fleet, commit_all
from .agent_scripts import TEXT
from .queue import Row

MUSTER = Path(sys.executable).parent / "muster"
POOLS = ("build", "explore", "general")
LOOK_EVERY_S = 0.001


async def first_request(runs: int) -> Row:
    """`muster run` in a repository, with the stages of the fastest; and how long `muster --version` takes."""
    script = load_script("rules: [{reply: {text: It is done.}}]")
    async with agent_fleet(lambda _: {"rules": []}) as fleet, ScriptedServer(script) as server:
        fleet.environment["MUSTER_MODEL_BASE_URL"] = server.base_url
        await fleet.orchestrator()
        for pool in POOLS:
            await fleet.worker(pool)
        while {card.pool for card in await fleet.transport.workers()} != {*POOLS, "orchestrator"}:
            await asyncio.sleep(LOOK_EVERY_S)
        with tempfile.TemporaryDirectory(prefix="muster-bench-") as folder:
            (Path(folder) / "part.py").write_text(TEXT)
            await commit_all(Path(folder))
            rows = [await _until_request(server, folder, fleet.environment) for _ in range(1 + runs)][1:]
            began_s = time.perf_counter()
            process = await asyncio.create_subprocess_exec(
                MUSTER, "--version", env=fleet.environment, stdout=asyncio.subprocess.DEVNULL
            )
            await process.wait()
            version_s = time.perf_counter() - began_s
    least = {f"least_{name}": value for name, value in min(rows, key=lambda row: row["wall_s"]).items()}
    return {"wall_s": statistics.median(row["wall_s"] for row in rows), **least, "muster_version_s": version_s}


async def _until_request(server: ScriptedServer, folder: str, environment: dict[str, str]) -> Row:
    before, began_s = server.log.requests, time.time()  # events carry the time of day
    process = await asyncio.create_subprocess_exec(
        MUSTER, "run", "Say that it is done.", "--no-input", "--json", cwd=folder, env=environment,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    ended = asyncio.create_task(process.communicate())
    while server.log.requests == before and not ended.done():
        await asyncio.sleep(LOOK_EVERY_S)
    took_s = time.time() - began_s
    output, errors = await ended
    assert process.returncode == 0 and server.log.requests > before, errors.decode()
    told = [json.loads(line) for line in output.splitlines()]
    goal = told[0]["task_id"]
    of_agent = next(one for one in told if one["task_id"] != goal and one.get("status") == "running")
    ends_s = {"submitted_s": told[0]["at_ms"] / 1000 - began_s, "begun_s": of_agent["at_ms"] / 1000 - began_s}
    return {**ends_s, "wall_s": took_s}
