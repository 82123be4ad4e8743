"""One worker of a peer in a process of its own: says when it begins, and how long it took."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from importlib import import_module


def main() -> None:
    name, url, count = sys.argv[1:]
    peer = import_module(f"benchmarks.peers.{name}")
    print(json.dumps({"ready": True}), flush=True)
    began, cpu = time.perf_counter(), time.process_time()
    asyncio.run(peer.drain(url, int(count)))
    took_s, cpu_s = time.perf_counter() - began, time.process_time() - cpu
    print(json.dumps({"took_s": took_s, "cpu_us_per_task": cpu_s / int(count) * 1e6}), flush=True)


if __name__ == "__main__":
    main()
