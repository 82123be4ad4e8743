"""One peer in a process of its own; says the CPU of a turn."""

from __future__ import annotations

import json
import statistics
import sys
import time
from importlib import import_module

from ..agent_scripts import TURNS

SHORT = 10


def main() -> None:
    name, url, runs = sys.argv[1:]
    print(json.dumps({"ready": True}), flush=True)
    peer = import_module(f"benchmarks.agent_peers.with_{name}")

    def cpu_ms(turns: int) -> float:
        began = time.process_time()
        peer.converse(url, turns)
        return (time.process_time() - began) * 1000 / turns

    cpu_ms(2)  # pays for imports and caches
    at_10, at_50 = (statistics.median(cpu_ms(turns) for _ in range(int(runs))) for turns in (SHORT, TURNS))
    print(json.dumps({"cpu_ms_a_turn": at_50, "of_10_ms": at_10}), flush=True)


if __name__ == "__main__":
    main()
