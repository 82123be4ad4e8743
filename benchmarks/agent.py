"""What an agent costs beside its model: a worker as operators run it, real Redis, real Docker, and a model server that
answers at once from a process of its own.

    python -m benchmarks.agent [--quick] [--no-peers] [--only WORD] [--json FILE]

CPU is of the worker's process; the programs that it runs (git) are a figure of their own. Aims: 2.5 ms a turn that
reads in process, at 50 turns at most 1.3 times that of 10; 4.5 ms with bash in a sandbox, 12 with a checkpoint of its
files; 100 agents of 10 turns in 3 s and 260 MiB.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from . import agent_scripts as scripts
from .agent_fleet import AgentFleet, Worker, agent_fleet, repository
from .agent_peers import PEERS, peer
from .queue import Row, show

READ_ONLY = ("read:**", "list:**", "glob:**", "grep:**", "bash:**")


async def conversations(runs: int, tool: str, **fields: object) -> Row:
    """Whole tasks of 10 and of 50 turns, one at a time; `growth` is of a turn's share in them."""
    async with agent_fleet(scripts.calls) as fleet:
        worker = await fleet.worker("build")
        if "workspace" in fields:
            fields["workspace"] = await repository(fleet.transport)
        await _conversation(fleet, worker, tool, 2, fields)  # pays for imports and caches
        short = [await _conversation(fleet, worker, tool, 10, fields) for _ in range(runs)]
        long = [await _conversation(fleet, worker, tool, scripts.TURNS, fields) for _ in range(runs)]
        one = [await _conversation(fleet, worker, tool, 1, fields) for _ in range(runs)]
    at_1, at_10, at_50 = (statistics.median(row["cpu_s"] for row in rows) * 1000 for rows in (one, short, long))
    early, late = (at_10 - at_1) / 9, (at_50 - at_10) / (scripts.TURNS - 10)
    return {
        "cpu_ms_a_turn": at_50 / scripts.TURNS,
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


Measure = Callable[[], Awaitable[Row]]


def measurements(*, quick: bool) -> dict[str, Measure]:
    runs = 3 if quick else 7
    return {
        "turn that reads in process": lambda: conversations(runs, "read"),
        "turn with bash, files may not change": lambda: conversations(
            runs, "bash", workspace=None, auth_scope=READ_ONLY
        ),
        "turn with bash, files are checkpointed": lambda: conversations(runs, "bash", workspace=None),
        "100 agents of 10 turns": lambda: many_agents(1 if quick else 3),
    }


async def measure_all(*, quick: bool, peers: bool, only: str) -> dict[str, Row]:
    found = measurements(quick=quick) | ({name: lambda name=name: peer(name) for name in PEERS} if peers else {})
    report: dict[str, Row] = {}
    for name, measure in found.items():
        if only in name:
            report[name] = await measure()
            show(name, report[name])
    return report


def main(arguments: Sequence[str] = sys.argv[1:]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer runs of each")
    parser.add_argument("--no-peers", action="store_true", help="leave the peers out")
    parser.add_argument("--only", default="", metavar="WORD", help="only what has this in its name")
    parser.add_argument("--json", type=Path, help="write the figures there, too")
    options = parser.parse_args(arguments)
    report = asyncio.run(measure_all(quick=options.quick, peers=not options.no_peers, only=options.only))
    if options.json:
        options.json.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
