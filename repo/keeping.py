"""The choice of what a cache keeps, and gives up. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

DAY_S = 24 * 3600.0
MIB = 1024**2
GIB = 1024**3
# From the moment that a task asks for a thing until its sandbox holds it, or its setup: an hour, and one to spare.
IN_USE_S = 2 * 3600.0
# What nobody's caches fill, of the bytes and of the files that a disk can hold: sandboxes write there, too. Who has
# hardly anything may write there all the same, so that whoever comes last can still work.
SPARED_SHARE = 20
SMALL_BYTES = 256 * MIB
# Each leaves free a third of what is its own: one alone may have three quarters, of two who fill the disk each has
# three sevenths, and there is always something left for one more.
OWN_PER_FREE = 3


@dataclass(frozen=True, slots=True)
class Kept:
    """`owner`: the tenant who asked for it, for most of it where there are several; empty when nobody knows."""

    name: str
    size_bytes: int
    used_at_s: float
    owner: str = ""


@dataclass(frozen=True, slots=True)
class Allowance:
    """What has not been used for `max_age_s` goes, and of the rest what was used the longest ago, until it fits."""

    max_age_s: float
    max_bytes: int


def surplus(kept: Iterable[Kept], allowance: Allowance, now_s: float, *, in_use_s: float = IN_USE_S) -> list[Kept]:
    """What is to go, the oldest first; nothing that was used less than `in_use_s` ago, however much there is. Of
    several owners, it is the one who has most that gives way.

    >>> old, new = Kept("old", 10, used_at_s=0), Kept("new", 10, used_at_s=50_000)
    >>> [each.name for each in surplus([new, old], Allowance(max_age_s=90_000, max_bytes=15), now_s=60_000)]
    ['old']
    """
    by_use = sorted(kept, key=lambda each: each.used_at_s)
    going = [each for each in by_use if now_s - each.used_at_s > max(allowance.max_age_s, in_use_s)]
    left = [each for each in by_use if now_s - each.used_at_s <= max(allowance.max_age_s, in_use_s)]
    held_bytes = held_by_owner(left)
    for each in giving_way([each for each in left if now_s - each.used_at_s > in_use_s], held_bytes):
        if held_bytes.total() <= allowance.max_bytes:
            break
        going.append(each)
        held_bytes[each.owner] -= each.size_bytes
    return going


def held_by_owner(kept: Iterable[Kept]) -> Counter[str]:
    held_bytes: Counter[str] = Counter()
    for each in kept:
        held_bytes[each.owner] += each.size_bytes
    return held_bytes


def giving_way(idle: Iterable[Kept], held_bytes: Mapping[str, int]) -> Iterator[Kept]:
    """One after the other: of whoever has most just then, what was used the longest ago. `held_bytes` is looked at
    anew each time; who removes something takes it off."""
    waiting: dict[str, list[Kept]] = {}
    for each in sorted(idle, key=lambda each: each.used_at_s):
        waiting.setdefault(each.owner, []).append(each)
    for of_one in waiting.values():
        of_one.reverse()
    while waiting:
        largest = max(waiting, key=lambda owner: held_bytes[owner])
        yield waiting[largest].pop()
        if not waiting[largest]:
            del waiting[largest]


def leaves_room(free_bytes: int, own_bytes: int, disk_bytes: int) -> bool:
    """May a tenant who has `own_bytes` in all leave so little of a disk free?

    >>> leaves_room(20 * GIB, 61 * GIB, 100 * GIB), leaves_room(4 * GIB, GIB, 100 * GIB)
    (False, False)
    >>> leaves_room(20 * GIB, 59 * GIB, 100 * GIB), leaves_room(0, SMALL_BYTES, 100 * GIB)
    (True, False)
    """
    return free_bytes >= max(disk_bytes // SPARED_SHARE, own_bytes // OWN_PER_FREE)
