"""How long the command line takes to answer, as a whole process, beside a bare `python -c pass`.

Aims: `muster --help` in 250 ms, which it can only hold while no model, container or Redis library is imported on the
way; `muster task list` with a server that runs in 400 ms. CPU of the process stands beside the wall, for machines that
do other work, too.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from transport.embedded import embedded_redis

BIN = Path(sys.executable).parent
RUNS = 15
COMMANDS = {
    "python -c pass": [sys.executable, "-c", "pass"],
    "muster --help": [BIN / "muster", "--help"],
    "muster --version": [BIN / "muster", "--version"],
    "muster task list": [BIN / "muster", "task", "list"],
}


def used_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def seconds(command: list[str | Path], environment: Mapping[str, str]) -> tuple[float, float]:
    """Of the wall, and of CPU."""
    began_s, before_s = time.perf_counter(), used_s()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environment)
    return time.perf_counter() - began_s, used_s() - before_s


async def main() -> None:
    figures = {}
    with tempfile.TemporaryDirectory(prefix="muster-bench-") as folder:
        async with embedded_redis(Path(folder)) as server:
            environment = os.environ | {
                "MUSTER_REDIS_URL": server.url, "MUSTER_STATE_DIR": folder, "MUSTER_CONFIG": f"{folder}/none.toml",
                # as an installed Muster has it: nobody compiles its sources at each start
                "PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": f"{folder}/bytecode",
            }  # fmt: skip
            for name, command in COMMANDS.items():
                seconds(command, environment)  # the first run compiles and warms the disk cache
                walls, cpus = zip(*(seconds(command, environment) for _ in range(RUNS)), strict=True)
                told = {"p50_ms": statistics.median(walls), "max_ms": max(walls), "least_cpu_ms": min(cpus)}
                figures[name] = {key: round(value * 1000) for key, value in told.items()}
                print(f"{name:20}", *(f"{key} {value:5}" for key, value in figures[name].items()))
    print(json.dumps({"benchmark": "cli", "runs": RUNS, "figures": figures}))


if __name__ == "__main__":
    asyncio.run(main())
