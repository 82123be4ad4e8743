"""The choice of what a cache keeps, and gives up. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass

DAY_S = 24 * 3600.0
GIB = 1024**3
# From the moment that a task asks for a thing until its sandbox holds it, or its setup: an hour, and one to spare.
IN_USE_S = 2 * 3600.0


@dataclass(frozen=True, slots=True)
class Kept:
    name: str
    size_bytes: int
    used_at_s: float


@dataclass(frozen=True, slots=True)
class Allowance:
    """What has not been used for `max_age_s` goes, and of the rest what was used the longest ago, until it fits."""

    max_age_s: float
    max_bytes: int


def surplus(
    kept: Iterable[Kept], allowance: Allowance, now_s: float, owner_of: Callable[[Kept], str] = lambda _: ""
) -> list[Kept]:
    """What is to go, the oldest first; nothing that was used a moment ago, however much there is. Of several owners, it
    is the one who has most that gives way.

    >>> old, new = Kept("old", 10, used_at_s=0), Kept("new", 10, used_at_s=50_000)
    >>> [each.name for each in surplus([new, old], Allowance(max_age_s=90_000, max_bytes=15), now_s=60_000)]
    ['old']
    """
    by_use = sorted(kept, key=lambda each: each.used_at_s)
    total_bytes = sum(each.size_bytes for each in by_use)
    held_bytes: Counter[str] = Counter()
    for each in by_use:
        held_bytes[owner_of(each)] += each.size_bytes
    idle = [each for each in by_use if now_s - each.used_at_s > IN_USE_S]
    going = [each for each in idle if now_s - each.used_at_s > allowance.max_age_s]
    idle = [each for each in idle if each not in going]
    for each in going:
        total_bytes -= each.size_bytes
        held_bytes[owner_of(each)] -= each.size_bytes
    while idle and total_bytes > allowance.max_bytes:
        largest = max({owner_of(each) for each in idle}, key=lambda owner: held_bytes[owner])
        first = next(each for each in idle if owner_of(each) == largest)
        idle.remove(first)
        going.append(first)
        total_bytes -= first.size_bytes
        held_bytes[largest] -= first.size_bytes
    return going
