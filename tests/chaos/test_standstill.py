"""What is added to promised times is what the machine has taken, and no more."""

from __future__ import annotations

import time

from lab.standstill import BUSY_S, TICK_S, Standstill


def test_a_standstill_is_counted_in_milliseconds():
    """Adding up numbers in C lets no other thread run."""
    with Standstill() as still:
        time.sleep(2 * TICK_S)
        began_s = time.monotonic()
        sum(range(30_000_000))
        stood_s = time.monotonic() - began_s
    whole_s = time.monotonic() - began_s

    assert stood_s > BUSY_S
    assert 1000 * (stood_s - TICK_S - BUSY_S) <= still.ms <= 1000 * (whole_s + 2 * TICK_S)
