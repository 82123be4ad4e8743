"""One agent that sends out 40 at once, through the queue and four worker processes; each model call takes 1 s."""

from __future__ import annotations

import statistics
import time

from . import agent_scripts as scripts
from .agent_fleet import agent_fleet, repository
from .queue import Row

CHILDREN = 40
WORKERS = 2  # of the children's pool
SCOPE = ("read:**", "bash:**", "todoread:*", "task:**")
IDEAL_S = 6.0  # the caller's two calls, and four of each child


async def fan_out(runs: int, tool: str) -> Row:
    """From the submit to the result."""
    async with agent_fleet(lambda _: scripts.fans_out(tool, CHILDREN)) as fleet:
        await fleet.worker("build")
        for _ in range(WORKERS):
            await fleet.worker("general", slots=CHILDREN // WORKERS)
        workspace = await repository(fleet.transport) if tool == "read" else None
        times_s: list[float] = []
        for _ in range(1 + runs):
            request = fleet.request("Send them all.", auth_scope=SCOPE, context_refs=(), workspace=workspace)
            began_s = time.perf_counter()
            await fleet.run([request])
            times_s.append(time.perf_counter() - began_s)
            records = await fleet.transport.tasks(trace_id=request.trace_id, limit=CHILDREN + 1)
            assert [str(record.state) for record in records] == ["completed"] * (CHILDREN + 1), records
    return {"wall_s": statistics.median(times_s[1:]), "ideal_s": IDEAL_S}
