"""A forecast of a merge: patches that will meet, those that cannot both stand, and the order in which the most land."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice

from .footprint import Overlap, overlaps
from .merge_sides import Changeset, Side, Sides, sides_of
from .merge_tree import conflicts_of
from .mirror import Mirror
from .scratch import scratch

# A pair takes about a millisecond. Two hundred patches of one and the same file are 20,000 pairs: of those the order
# is by size alone.
MAX_PAIRS = 2_000


@dataclass(frozen=True, slots=True)
class Meeting:
    """Two patches that meet in `overlap.paths`; by lines, they conflict at `conflicts` (none: git merges them)."""

    overlap: Overlap
    conflicts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Forecast:
    """`order`: the keys, those first that leave room for the most others. `meetings`: of the first `MAX_PAIRS` pairs.

    `sides` saves the merge from making them again.
    """

    order: tuple[str, ...]
    meetings: tuple[Meeting, ...]
    sides: Sides


def no_rank(key: str) -> int:
    return 0


async def predict(
    mirror: Mirror, base_commit: str, patches: Sequence[Changeset], *, rank: Callable[[str], int] = no_rank
) -> Forecast:
    """By paths first, then by a 3-way merge of each pair that shares some. Nothing is decided by it but the order:
    by `rank` (the smallest first: what others build on), then by how many others a patch excludes, then by size.
    """
    sides = await sides_of(mirror, base_commit, patches)
    fitting = [patch for patch in patches if isinstance(sides.of[patch.key], Side)]
    pairs = list(islice(overlaps(fitting), MAX_PAIRS))
    commits = {key: side.commit for key, side in sides.of.items() if isinstance(side, Side)}
    with scratch(write_to=mirror.objects) as own:
        conflicts = await conflicts_of(own, [(commits[pair.first], commits[pair.second]) for pair in pairs])
    meetings = tuple(map(Meeting, pairs, conflicts))
    excludes = Counter(
        key for meeting in meetings if meeting.conflicts for key in (meeting.overlap.first, meeting.overlap.second)
    )
    ordered = sorted(patches, key=lambda patch: (rank(patch.key), excludes[patch.key], patch.lines, patch.key))
    return Forecast(
        order=tuple(patch.key for patch in ordered),
        meetings=meetings,
        sides=sides,
    )
