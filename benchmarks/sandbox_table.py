"""How the rows of the sandbox's table are measured and told, and what they aim at."""

from __future__ import annotations

import statistics
import time
from collections.abc import Awaitable, Callable, Mapping

Row = dict[str, float]
Call = Callable[[], Awaitable[object]]

# Row → of a figure, at most. Of two rows: the first may take so many times what the second takes.
AIMS: dict[str, Row] = {
    "exec": {"p50_ms": 1.1, "p99_ms": 4},
    "read 10 KB": {"p50_ms": 0.7},
    "warm, with 20,000 files": {"p50_ms": 15, "p99_ms": 60},
    "cold, with 20,000 files": {"p50_ms": 250},
    "patch of 50 files": {"p50_ms": 120},
    "kill of a tree": {"p99_ms": 2000},
    "disk at rest": {"mb": 1},
    "memory, idle": {"mb": 10},
}
RATIO_AIMS = {
    ("cold, empty", "docker run --rm (peer)"): 1.2,
    ("grep 20,000 files", "ripgrep itself (peer)"): 1.3,
}
RATE_AIM = 1200  # calls a second, of 20 sandboxes together


def spread(times_s: list[float]) -> Row:
    """The smallest, too: on a machine that others use it says the most."""
    p99 = statistics.quantiles(times_s, n=100)[98] if len(times_s) > 1 else times_s[0]
    figures = {"p50_ms": statistics.median(times_s), "p99_ms": p99, "min_ms": min(times_s)}
    return {what: round(figure * 1000, 2) for what, figure in figures.items()}


async def timed(call: Call) -> float:
    began = time.perf_counter()
    await call()
    return time.perf_counter() - began


async def latencies(call: Call, count: int) -> Row:
    await call()  # the first pays for imports and caches
    return spread([await timed(call) for _ in range(count)])


async def in_turn(calls: Mapping[str, Callable[[], Awaitable[float]]], count: int) -> dict[str, Row]:
    """Each call says its seconds. One after another, round by round: what else the machine does meets all alike."""
    times_s: dict[str, list[float]] = {name: [] for name in calls}
    for call in calls.values():
        await call()
    for _ in range(count):
        for name, call in calls.items():
            times_s[name].append(await call())
    return {name: spread(times) for name, times in times_s.items()}


def told(driver: str, rows: Mapping[str, Row]) -> list[str]:
    lines = [f"{driver}: {name:26} {_figures(row)}{_aims(AIMS.get(name, {}), row)}" for name, row in rows.items()]
    for (ours, theirs), most in RATIO_AIMS.items():
        if theirs in rows:
            ratio = rows[ours]["min_ms"] / rows[theirs]["min_ms"]
            lines.append(
                f"{driver}: {ours}: {ratio:.2f} x {theirs}, of the smallest  aim {most:g} {_met(ratio <= most)}"
            )
    return lines


def _figures(row: Row) -> str:
    return "   ".join(f"{what.removesuffix('_ms')} {figure:8.2f}" for what, figure in row.items())


def _aims(aims: Row, row: Row) -> str:
    """For each: whether what is said of the row keeps it."""
    return "".join(
        f"   aim {what.removesuffix('_ms')} {most:g} {_met(row[what] <= most)}" for what, most in aims.items()
    )


def _met(is_met: bool) -> str:
    return "(met)" if is_met else "(SHORT)"
