"""The life of a blob: a time after it was last put or read, whoever names it.

Nothing counts references. A count that is one too low loses a patch, one that is too high keeps it for ever, and both
happen wherever a process may die between two writes. A time can only be too long. It is long enough: a trace lives
for the longest deadline at most and is kept for the retention time after its end, so what it put or read at any moment
outlives its record. Until that is gone, a new task may still be given its blobs (a session goes on, a dead letter is
queued again), and has one more such deadline to read, and so renew, them.

In a directory or a bucket a blob stands in a *generation*, a folder named by its first day. Put and read see to it that
the blob is in the current one; a generation goes as a whole when its last moment is a life ago. So no blob is ever
removed from the place into which it is renewed, and collecting needs no lock, no time stamp of the store, and no care.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, timedelta

from ..limits import longest_deadline_ms

Clock = Callable[[], int]

# What lies between a put and the acceptance of the task that names it, and how much clocks may differ.
LEEWAY_MS = 3600 * 1000

# A blob may stay this much longer than its life, and is looked for in one place more for each that fits into it:
# nine with the default retention of a week. The same for every process: folders are found by their names.
GENERATION_DAYS = 3
GENERATION_MS = GENERATION_DAYS * 24 * 3600 * 1000

_EPOCH = date(1970, 1, 1)


def wall_clock_ms() -> int:
    return time.time_ns() // 1_000_000


def life_ms(retention_ms: int) -> int:
    """How long a blob stays at least after it was last put or read."""
    return retention_ms + 2 * longest_deadline_ms(retention_ms) + LEEWAY_MS


@dataclass(frozen=True, slots=True)
class Generations:
    """Names of generations, which sort by time.

    >>> Generations(life_ms=0).current(0), Generations(life_ms=GENERATION_MS).readable(GENERATION_MS)
    ('1970-01-01', ['1970-01-04', '1970-01-01'])
    """

    life_ms: int

    def current(self, now_ms: int) -> str:
        return _name(now_ms // GENERATION_MS)

    def readable(self, now_ms: int) -> list[str]:
        """Where a blob may be, the latest first; the first may be the next one, if our clock is behind."""
        latest, oldest = (now_ms + LEEWAY_MS) // GENERATION_MS, max(0, now_ms - self.life_ms) // GENERATION_MS
        return [_name(number) for number in range(latest, oldest - 1, -1)]

    def is_over(self, name: str, now_ms: int) -> bool:
        """Is this a generation, and was everything in it last used more than a life ago?"""
        number = _number(name)
        return number is not None and (number + 1) * GENERATION_MS + self.life_ms <= now_ms


def _name(number: int) -> str:
    return (_EPOCH + timedelta(days=number * GENERATION_DAYS)).isoformat()


def _number(name: str) -> int | None:
    """None for what is no generation of ours: it is never read, and never removed."""
    try:
        days = (date.fromisoformat(name) - _EPOCH).days
    except ValueError:
        return None
    return days // GENERATION_DAYS if _name(days // GENERATION_DAYS) == name else None
