"""The paths that each patch touches, the same for a forecast and for the merge itself. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from .changes import FileChange

# Folders whose files are numbered: two of one number are two for one place in an order.
_NUMBERED = re.compile(r"(?:^|/)(?:migrations?|migrate|versions|decisions|adrs?|rfcs)$")
_NUMBER = re.compile(r"[Vv]?(?:0(?=\d))*+(\d++)(?=[-_.])")


_MODULE = re.compile(r"(.+?)(?:/__init__|/index|/mod)?\.(py|ts|js|rs)")


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


class HasFiles(HasPaths, Protocol):
    @property
    def files(self) -> tuple[FileChange, ...]: ...


@dataclass(slots=True)
class Places:
    """Where patches put new files, beside their paths: in folders that others move, and where one alone can be."""

    _left: dict[str, set[str]] = field(default_factory=dict[str, set[str]])
    _filled: dict[str, set[str]] = field(default_factory=dict[str, set[str]])
    _seats: dict[tuple[str, str], dict[str, str]] = field(default_factory=dict[tuple[str, str], dict[str, str]])

    def add(self, patch: HasFiles) -> None:
        for folder in _left(patch):
            self._left.setdefault(folder, set()).add(patch.key)
        for path in _new(patch):
            for folder in folders_above(path):
                self._filled.setdefault(folder, set()).add(patch.key)
        for seat, path in seats(patch):
            self._seats.setdefault(seat, {})[patch.key] = path

    def has(self, seat: tuple[str, str]) -> bool:
        return seat in self._seats

    def met_by(self, patch: HasFiles) -> set[str]:
        """Who adds files to a folder that it moves, or moves one that it adds files to."""
        found = [self._filled.get(folder, set[str]()) for folder in _left(patch)]
        found += [self._left.get(folder, set[str]()) for path in _new(patch) for folder in folders_above(path)]
        return set[str]().union(*found)

    def seated_by(self, patch: HasFiles) -> dict[str, str]:
        """Who has put another file where it puts one, and which."""
        taken = ((path, self._seats.get(seat, {})) for seat, path in seats(patch))
        return {key: other for path, others in taken for key, other in others.items() if other != path}


def _new(patch: HasFiles) -> Iterator[str]:
    return (change.path for change in patch.files if change.status in "AR")


def _left(patch: HasFiles) -> Iterator[str]:
    """Folders out of which it moves files, up to where old and new place part. (A file that is gone where others are
    new may be one that was moved.)"""
    has_new = any(change.status == "A" for change in patch.files)
    for change in patch.files:
        if change.status == "R" or (change.status == "D" and has_new):
            kept = set(folders_above(change.path)) if change.status == "R" else set[str]()
            yield from (folder for folder in folders_above(change.old_path or change.path) if folder not in kept)


def seats(patch: HasFiles) -> Iterator[tuple[tuple[str, str], str]]:
    """A place that one file alone can have, and the new file that takes it: a folder and a number, a module (`a.py` and
    `a/__init__.py` are one), or a name for those file systems that do not tell `A` from `a`."""
    for path in _new(patch):
        folder, _, name = path.rpartition("/")
        if _NUMBERED.search(folder) and (found := _NUMBER.match(name)):
            yield (folder, found[1]), path
        yield ("", path.casefold()), path
        if found := _MODULE.fullmatch(path):
            yield ("module", f"{found[1]}.{found[2]}"), path


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
