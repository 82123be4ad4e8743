"""This machine's clock, for the times that people read in events. Deadlines are counted on the store's."""

from __future__ import annotations

import time


def now_ms() -> int:
    return time.time_ns() // 1_000_000
