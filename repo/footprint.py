"""Who touched which paths: pure, and the same for a forecast and for the merge itself."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Protocol


class HasPaths(Protocol):
    @property
    def key(self) -> str: ...

    @property
    def paths(self) -> frozenset[str]: ...


@dataclass(frozen=True, slots=True)
class Overlap:
    """Two patches that meet in `paths` (of either), and may collide there."""

    first: str
    second: str
    paths: tuple[str, ...]


@dataclass(slots=True)
class Footprint:
    """Keys by path. A file and a folder of the same name meet too: `a` and `a/b` cannot both exist."""

    _at: dict[str, set[str]] = field(default_factory=dict[str, set[str]])
    _below: dict[str, set[str]] = field(default_factory=dict[str, set[str]])

    def add(self, key: str, paths: Iterable[str]) -> None:
        for path in paths:
            self._at.setdefault(path, set()).add(key)
            for folder in _folders_above(path):
                self._below.setdefault(folder, set()).add(key)

    def owners_of(self, paths: Iterable[str]) -> tuple[str, ...]:
        return tuple(sorted(set[str]().union(*(self._owners(path) for path in paths))))

    def _owners(self, path: str) -> set[str]:
        met = (self._at.get(name, set[str]()) for name in (path, *_folders_above(path)))
        return self._below.get(path, set[str]()).union(*met)


def predict_overlaps(patches: Sequence[HasPaths]) -> tuple[Overlap, ...]:
    """Pairs of patches, in the order given, that share a path or stand in each other's way. No git, no I/O."""
    footprint = Footprint()
    for patch in patches:
        footprint.add(patch.key, patch.paths)
    order = {patch.key: place for place, patch in enumerate(patches)}
    shared: dict[tuple[str, str], set[str]] = {}
    for path in sorted(set[str]().union(*(patch.paths for patch in patches))):
        for pair in combinations(sorted(footprint.owners_of([path]), key=order.__getitem__), 2):
            shared.setdefault(pair, set()).add(path)
    pairs = sorted(shared, key=lambda pair: (order[pair[0]], order[pair[1]]))
    return tuple(Overlap(*pair, tuple(sorted(shared[pair]))) for pair in pairs)


def _folders_above(path: str) -> Iterator[str]:
    while "/" in path:
        path = path.rpartition("/")[0]
        yield path
