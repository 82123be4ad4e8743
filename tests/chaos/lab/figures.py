"""The figures of a run: shown to who looks on (`pytest -s`), and kept as JSON lines where MUSTER_CHAOS_REPORT says."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any


def report(row: str, **figures: Any) -> None:
    """One row of the table of promises, e.g. `report("R3", seed=1, p95_ms=…)`."""
    line = json.dumps({"row": row, **figures})
    sys.stderr.write(f"\n{line}\n")
    if path := os.environ.get("MUSTER_CHAOS_REPORT"):
        with Path(path).open("a") as kept:
            kept.write(f"{line}\n")


def slope(points: Sequence[tuple[float, float]]) -> float:
    """Of the straight line that lies closest to the points, by least squares."""
    mean_x, mean_y = (sum(values) / len(points) for values in zip(*points, strict=True))
    spread = sum((x - mean_x) ** 2 for x, _ in points)
    return sum((x - mean_x) * (y - mean_y) for x, y in points) / spread if spread else 0.0


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least this share of the values does not exceed."""
    ordered = sorted(values)
    return ordered[max(0, -(-len(ordered) * int(share * 100) // 100) - 1)]
