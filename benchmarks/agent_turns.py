"""What turns cost: of one conversation, and of a hundred at once."""

from __future__ import annotations

import statistics

from . import agent_scripts as scripts
from .agent_fleet import AgentFleet, Worker, agent_fleet, repository
from .queue import Row

PROJECT = "project"
READ_ONLY = ("read:**", "list:**", "glob:**", "grep:**", "bash:**")


async def conversations(runs: int, tool: str, *, at: str = "", **fields: object) -> Row:
    """Whole tasks of 10 and of 50 turns, one at a time; `growth`: what turns 11 to 50 cost beside turns 2 to 10.

    Other processes only ever add to it, so that the least is a figure, too.
    """
    async with agent_fleet(scripts.calls) as fleet:
        worker = await fleet.worker("build")
        if at == PROJECT:
            fields["workspace"] = await repository(fleet.transport)
        await _conversation(fleet, worker, tool, 2, fields)  # pays for imports and caches
        short = [await _conversation(fleet, worker, tool, 10, fields) for _ in range(runs)]
        long = [await _conversation(fleet, worker, tool, scripts.TURNS, fields) for _ in range(runs)]
        one = [await _conversation(fleet, worker, tool, 1, fields) for _ in range(runs)]
    at_1, at_10, at_50 = (statistics.median(row["cpu_s"] for row in rows) * 1000 for rows in (one, short, long))
    early, late = (at_10 - at_1) / 9, (at_50 - at_10) / (scripts.TURNS - 10)
    return {
        "cpu_ms_a_turn": at_50 / scripts.TURNS,
        "least_ms": min(row["cpu_s"] for row in long) * 1000 / scripts.TURNS,
        "of_10_ms": at_10 / 10,
        "task_itself_ms": at_1,
        "growth": late / early,
        "programs_ms": statistics.median(row["children_cpu_s"] for row in long) * 1000 / scripts.TURNS,
        "wall_ms": statistics.median(row["wall_s"] for row in long) * 1000 / scripts.TURNS,
    }


async def _conversation(fleet: AgentFleet, worker: Worker, tool: str, turns: int, fields: dict[str, object]) -> Row:
    request = fleet.request(scripts.prompt(tool, turns), **fields)
    return await worker.spends(lambda: fleet.run([request]))


async def many_agents(runs: int, count: int = 100, turns: int = 10) -> Row:
    """Together in one worker process that has litellm loaded, as it is where a provider needs it."""
    async with agent_fleet(scripts.calls) as fleet:
        worker = await fleet.worker("build", slots=count, library="litellm")
        prompt = scripts.prompt("read", turns)
        await fleet.run([fleet.request(prompt)])
        rows = [
            await worker.spends(lambda: fleet.run([fleet.request(prompt) for _ in range(count)])) for _ in range(runs)
        ]
    return {name: statistics.median(row[name] for row in rows) for name in ("wall_s", "cpu_s", "peak_mib")}
