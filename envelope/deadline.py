"""Arithmetic of deadlines. No clock here: the queue's own time is passed in."""

from __future__ import annotations


def expires_at_ms(accepted_at_ms: int, deadline_ms: int, *, parent_expires_at_ms: int | None = None) -> int:
    """When a task must have ended: its own deadline, but never later than its parent's.

    >>> expires_at_ms(1_000, 5_000, parent_expires_at_ms=4_000)
    4000
    """
    own = accepted_at_ms + deadline_ms
    return own if parent_expires_at_ms is None else min(own, parent_expires_at_ms)


def remaining_ms(at_ms: int, *, now_ms: int) -> int:
    """Time left until a moment; never negative.

    >>> remaining_ms(6_000, now_ms=5_200)
    800
    """
    return max(0, at_ms - now_ms)
