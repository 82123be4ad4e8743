"""What a delta costs on its way to Redis, and what a conversation takes while it lives."""

from __future__ import annotations

import asyncio
import statistics

from envelope.messages import TaskProgress, TaskRequest

from . import agent_scripts as scripts
from .agent_fleet import AgentFleet, agent_fleet
from .queue import Row

READS = 12  # of `TEXT`: 100 KB of messages


async def deltas(runs: int) -> Row:
    """The CPU of a task whose reply has 5,000 deltas, without that of one whose reply has one."""
    async with agent_fleet(lambda _: scripts.says_much()) as fleet:
        worker = await fleet.worker("build")

        async def cpu_s(prompt: str) -> float:
            return (await worker.spends(lambda: fleet.run([fleet.request(prompt)])))["cpu_s"]

        await cpu_s("Say little.")
        little = [await cpu_s("Say little.") for _ in range(runs)]
        much = [await cpu_s("Say much.") for _ in range(runs)]
    return {"cpu_us": (statistics.median(much) - statistics.median(little)) / scripts.DELTAS * 1e6}


async def live_conversations(count: int) -> Row:
    """Resident memory that `count` more conversations take while all wait for their model."""
    async with agent_fleet(lambda blob: scripts.stays(blob, READS + 1)) as fleet:
        worker = await fleet.worker("build", slots=count + 10)
        warm = await _live(fleet, 10)
        before = await worker.used()
        live = await _live(fleet, count)
        after = await worker.used()
        for request in (*warm, *live):
            await fleet.transport.cancel(request.task_id, by="bench", reason="measured")
        _ = [one async for one in fleet.transport.results([request.task_id for request in (*warm, *live)])]
    return {"kib": (after["rss_kib"] - before["rss_kib"]) / count, "text_kb": READS * len(scripts.TEXT) / 1000}


async def _live(fleet: AgentFleet, count: int) -> list[TaskRequest]:
    """Conversations that have read it all, and wait for the model."""
    requests = [fleet.request("Read it all.") for _ in range(count)]
    await fleet.transport.submit(requests)
    await asyncio.gather(*(_until_turn(fleet, request.trace_id, READS + 1) for request in requests))
    return requests


async def _until_turn(fleet: AgentFleet, trace_id: str, turn: int) -> None:
    async for entry in fleet.transport.follow(trace_id):
        events = entry.message.events if isinstance(entry.message, TaskProgress) else ()
        if any(event.kind == "turn_started" and event.turn == turn for event in events):
            return
    raise SystemExit("a conversation has ended before its time")
