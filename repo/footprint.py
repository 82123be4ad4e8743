"""Who touched which paths: pure, and the same for a forecast and for the merge itself."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
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
            for folder in folders_above(path):
                self._below.setdefault(folder, set()).add(key)

    def owners_of(self, paths: Iterable[str]) -> tuple[str, ...]:
        return tuple(sorted(set[str]().union(*(self._owners(path) for path in paths))))

    def _owners(self, path: str) -> set[str]:
        met = (self._at.get(name, set[str]()) for name in (path, *folders_above(path)))
        return self._below.get(path, set[str]()).union(*met)


def overlaps(patches: Sequence[HasPaths]) -> Iterator[Overlap]:
    """Pairs of patches, in the order given, that share a path or stand in each other's way. No git, no I/O.

    One after the other, since those of many patches of one path are more than anybody wants to hold.
    """
    footprint = Footprint()
    for patch in patches:
        footprint.add(patch.key, patch.paths)
    place = {patch.key: number for number, patch in enumerate(patches)}
    at = {patch.key: patch for patch in patches}
    for patch in patches:
        met: dict[str, set[str]] = {}
        for path in patch.paths:
            for other in footprint.owners_of([path]):
                met.setdefault(other, set()).add(path)
        for other in sorted((key for key in met if place[key] > place[patch.key]), key=place.__getitem__):
            yield Overlap(patch.key, other, tuple(sorted(met[other] | _in_the_way(at[other].paths, patch.paths))))


def _in_the_way(paths: frozenset[str], of: frozenset[str]) -> set[str]:
    """Those of `paths` that are one of the others, too, or a folder of one, or in one."""
    mine = Footprint()
    mine.add("", of)
    return {path for path in paths if mine.owners_of([path])}


def folders_above(path: str) -> Iterator[str]:
    while "/" in path:
        path = path.rpartition("/")[0]
        yield path
