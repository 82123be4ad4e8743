"""Patches that share no file, and yet cannot both stand: one begins to use what the other one takes away."""

from __future__ import annotations

import asyncio
import heapq
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice

from .changes import NO_MODE
from .content import REGULAR_FILES
from .merge_entities import Reader
from .merge_sides import Changeset, Side
from .merge_tree import Version, version_at
from .merge_words import Words, may_meet, names_gone, reaches, things_gone, words_of
from .scratch import Scratch

AT_ONCE = 50  # patches that one is held against before others of this process have their turn
MAX_PAIRS = 1000  # for two patches: of files that may be about each other
MAX_LOOKS = 20  # and of those that are

_Said = tuple[str, Words, Mapping[bytes, Version]]  # a patch's key, its lines, and what it makes of its files


@dataclass(frozen=True, slots=True)
class Met:
    """Another patch, the paths of both, and why they cannot both stand."""

    key: str
    paths: tuple[str, ...]
    why: str


@dataclass(slots=True)
class Across:
    """What the patches so far say, in their own lines."""

    own: Scratch
    reader: Reader
    base: str
    _said: dict[str, tuple[Words, Mapping[bytes, Version]]] = field(
        default_factory=dict[str, tuple[Words, Mapping[bytes, Version]]]
    )
    _new: dict[str, tuple[Words, Mapping[bytes, Version]]] = field(
        default_factory=dict[str, tuple[Words, Mapping[bytes, Version]]]
    )
    _seats: dict[tuple[str, ...], dict[str, str]] = field(default_factory=dict[tuple[str, ...], dict[str, str]])
    _reached: dict[tuple[str, str, str], bool] = field(default_factory=dict[tuple[str, str, str], bool])
    _with_losses: list[str] = field(default_factory=list[str])

    async def met(self, patch: Changeset, side: Side) -> Met | None:
        words, _ = own = await self._of(patch, side)
        for seat, path in words.seats.items():
            for key, other in self._seats.get(seat, {}).items():
                if other != path:
                    return Met(key, tuple(sorted((path, other))), f"both have {' '.join(seat[-1:])}")
        # Those that take nothing away cannot let down one that takes nothing away, either.
        keys = self._said if words.takes else self._with_losses
        for number, key in enumerate(keys, 1):
            if number % AT_ONCE == 0:
                await asyncio.sleep(0)
            other = self._said[key]
            for some, others in ((own, other), (other, own)):
                if names := things_gone(some[0], others[0]):
                    why = f"one begins to use {', '.join(sorted(names))}, which is gone with the other"
                    return Met(key, tuple(sorted({*patch.paths})), why)
                if named := names_gone(some[0], others[0]):
                    return Met(key, tuple(sorted(named)), "one names a file that is gone with the other")
            if let_down := await self._let_down((patch.key, *own), (key, *other)):
                path, file = let_down
                return Met(key, tuple(sorted(let_down)), f"{file} begins to use what {path} no longer has")
        return None

    async def _let_down(self, one: _Said, another: _Said) -> tuple[str, str] | None:
        """The first file of either patch that the other one takes something from, and that one's. In an order that does
        not depend on who comes first, since it is not looked for to the end."""
        pairs = heapq.merge(_pairs(one, another), _pairs(another, one), key=lambda pair: (*pair[:2], pair[2][0]))
        looks = 0
        for path, file, some, others in islice(pairs, MAX_PAIRS):
            if looks < MAX_LOOKS and await self._reaches(path, file, others[2]):
                looks += 1
                if await self._is_let_down(path, some[2], file, others[2]):
                    return path, file
        return None

    async def add(self, patch: Changeset, side: Side) -> None:
        words, entries = await self._of(patch, side)
        self._said[patch.key] = words, entries
        if words.takes:
            self._with_losses.append(patch.key)
        for seat, path in words.seats.items():
            self._seats.setdefault(seat, {})[patch.key] = path

    async def _of(self, patch: Changeset, side: Side) -> tuple[Words, Mapping[bytes, Version]]:
        if patch.key not in self._new:
            entries = {entry.path: Version(entry.mode, entry.id) for entry in side.entries}
            self._new = {patch.key: (await asyncio.to_thread(words_of, patch.diff, patch.files), entries)}
        return self._new[patch.key]

    async def _reaches(self, path: str, file: str, others: Mapping[bytes, Version]) -> bool:
        version = others.get(os.fsencode(file))
        if version is None or version.mode.encode() not in REGULAR_FILES:
            return False
        asked = (version.id, path, file)
        if asked not in self._reached:
            self._reached[asked] = reaches(await self.reader.text_of(version), path, file)
        return self._reached[asked]

    async def _is_let_down(
        self, path: str, some: Mapping[bytes, Version], file: str, others: Mapping[bytes, Version]
    ) -> bool:
        versions: list[Version | None] = []
        for name, side in ((os.fsencode(path), some), (os.fsencode(file), others)):
            versions += [await version_at(self.own, self.base, name), side.get(name)]
        was, now, before, after = versions
        if now is not None and others.get(os.fsencode(path)) == now:
            return False  # both made the same of it
        if was is None or now is None or after is None or NO_MODE in (now.mode, after.mode):
            return False
        return await self.reader.across(path, file, (was, now, before, after))


def _pairs(one: _Said, another: _Said) -> Iterator[tuple[str, str, _Said, _Said]]:
    return ((path, file, one, another) for path, file in may_meet(one[1], another[1]))
