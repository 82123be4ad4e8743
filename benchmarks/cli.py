"""How long the command line takes to answer, as a whole process: `muster --help` beside a bare `python -c pass`.

Aim: under 300 ms, which it can only hold while no model, container or Redis library is imported on the way.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

BIN = Path(sys.executable).parent
RUNS = 15
COMMANDS = {
    "python -c pass": [sys.executable, "-c", "pass"],
    "muster --help": [BIN / "muster", "--help"],
    "muster --version": [BIN / "muster", "--version"],
}


def seconds(command: list[str | Path]) -> float:
    began = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began


def main() -> None:
    figures = {}
    for name, command in COMMANDS.items():
        seconds(command)  # the first run compiles and warms the disk cache
        times = sorted(seconds(command) for _ in range(RUNS))
        figures[name] = {"p50_ms": round(statistics.median(times) * 1000), "max_ms": round(times[-1] * 1000)}
        print(f"{name:20} p50 {figures[name]['p50_ms']:4} ms   max {figures[name]['max_ms']:4} ms")
    print(json.dumps({"benchmark": "cli", "runs": RUNS, "figures": figures}))


if __name__ == "__main__":
    main()
