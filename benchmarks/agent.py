"""What an agent costs beside its model: a worker as operators run it, real Redis, real Docker, and a model server that
answers at once from a process of its own.

    python -m benchmarks.agent [--quick] [--no-peers] [--only WORD] [--json FILE]

CPU is of the worker's process; the programs that it runs (git) are a figure of their own. Aims: 2.5 ms a turn that
reads in process, at 50 turns at most 1.3 times that of 10; 4.5 ms with bash in a sandbox, 12 with a checkpoint of its
files; 100 agents of 10 turns in 3 s and 260 MiB; 200 KiB for a live conversation of 100 KB; 50 us a delta; 40 subagents
of 4 calls that take 1 s in 6.8 s, in 10 s with a container each (ideal: 6 s); 0.25 s from the command line to the first
request.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from .agent_fan_out import fan_out
from .agent_peers import PEERS, peer
from .agent_start import first_request
from .agent_stream import deltas, live_conversations
from .agent_turns import PROJECT, READ_ONLY, conversations, many_agents
from .queue import Row, show

Measure = Callable[[], Awaitable[Row]]


def measurements(*, quick: bool) -> dict[str, Measure]:
    runs, few = (3, 1) if quick else (7, 3)
    return {
        "turn that reads in process": lambda: conversations(runs, "read"),
        "turn with bash, nothing to checkpoint": lambda: conversations(runs, "bash", at=PROJECT, auth_scope=READ_ONLY),
        "turn with bash, files are checkpointed": lambda: conversations(runs, "bash", at=PROJECT),
        "turn with bash that writes a file": lambda: conversations(runs, "bash-writes", at=PROJECT),
        "100 agents of 10 turns": lambda: many_agents(few),
        "live conversation of 100 KB": lambda: live_conversations(20 if quick else 50),
        "delta, on to Redis": lambda: deltas(runs),
        "40 subagents, tools in process": lambda: fan_out(few, "todoread"),
        "40 subagents that each read three files": lambda: fan_out(few, "read"),
        "40 subagents, a container each": lambda: fan_out(few, "bash"),
        "command line to the first request": lambda: first_request(runs),
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
