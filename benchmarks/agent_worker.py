"""A worker as operators run it, in a process of its own that says what it has used whenever it is asked.

python -m benchmarks.agent_worker POOL [LIBRARY]

Its settings come from `MUSTER_*`. `LIBRARY` is loaded first, as it is in a worker that needs it for its provider.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import resource
import sys
import time
from importlib import import_module
from pathlib import Path

from envelope.logs import configure
from workers import process
from workers.service import serve
from workers.settings import WorkerSettings


def used() -> dict[str, float]:
    """CPU of this process and of the programs it has run (git), and its memory, without what nobody refers to."""
    gc.collect()  # before the clock is read: what this costs is no part of what is measured next
    cpu_s, children = time.process_time(), resource.getrusage(resource.RUSAGE_CHILDREN)
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return {
        "cpu_s": cpu_s,
        "children_cpu_s": children.ru_utime + children.ru_stime,
        "rss_kib": pages * os.sysconf("SC_PAGE_SIZE") / 1024,
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


async def work(pool: str) -> None:
    stop = asyncio.Event()
    serving = asyncio.create_task(serve(WorkerSettings(), pool, stop=stop, hurry=stop))
    print(json.dumps({"ready": True}), flush=True)
    while await asyncio.to_thread(sys.stdin.readline):
        print(json.dumps(used()), flush=True)
    stop.set()
    await serving


def main() -> None:
    pool, *libraries = sys.argv[1:]
    configure(level="error")
    for library in libraries:
        import_module(library)
    process.run(work(pool))


if __name__ == "__main__":
    main()
