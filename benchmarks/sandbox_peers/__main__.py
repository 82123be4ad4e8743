"""One peer in a process of its own; says what opening, one command, and many at once take."""

from __future__ import annotations

import asyncio
import json
import logging
import statistics
import sys
import time
from importlib import import_module

CALLS_EACH = 3  # of those that run together


async def measure(name: str, image: str, calls: int, together: int) -> dict[str, float]:
    peer = import_module(f"benchmarks.sandbox_peers.with_{name}")
    began = time.perf_counter()
    boxes = [await peer.opened(image)]
    try:
        await boxes[0].run("true")
        row = {"cold_ms": (time.perf_counter() - began) * 1000}
        times_ms = [await timed_ms(boxes[0]) for _ in range(calls)]
        row |= {"p50_ms": statistics.median(times_ms), "p99_ms": statistics.quantiles(times_ms, n=100)[98]}
        row["min_ms"] = min(times_ms)
        boxes += [await peer.opened(image) for _ in range(together - 1)]
        began = time.perf_counter()
        await asyncio.gather(*(many(box) for box in boxes))
        row["calls_per_s"] = together * CALLS_EACH / (time.perf_counter() - began)
    finally:
        for box in boxes:
            await box.close()
    return {what: round(figure, 2) for what, figure in row.items()}


async def timed_ms(box) -> float:
    began = time.perf_counter()
    await box.run("true")
    return (time.perf_counter() - began) * 1000


async def many(box) -> None:
    for _ in range(CALLS_EACH):
        await box.run("true")


def main() -> None:
    name, image, calls, together = sys.argv[1:]
    logging.disable()  # they would write between the figures
    print(json.dumps({"ready": True}), flush=True)
    try:
        answer: dict[str, object] = {**asyncio.run(measure(name, image, int(calls), int(together)))}
    except Exception as error:  # what a peer raises is its own affair, and its row's
        answer = {"refused": f"{type(error).__name__}: {error}"}
    print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
