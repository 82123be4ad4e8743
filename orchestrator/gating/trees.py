"""Both sides of a change, as git has them."""

from __future__ import annotations

import posixpath
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from repo.content import contents_of, file_at, ids_at, lines_with, links_of, sizes_of
from repo.errors import OutputTooLarge
from repo.mirror import Mirror

from .build_files import is_build_file
from .diff import LINKS, FilePatch
from .settings_of import Asked, has_other_settings, holds_settings

MAX_LINES_BYTES = 4 * 1024 * 1024  # of a search: who finds more has asked for a word that says nothing
MAX_TEXTS_BYTES = 8 * 1024 * 1024  # of files that are read together
MAX_SETTINGS_BYTES = 1024 * 1024  # no project's own settings are larger: what is counts as edited
MAX_HOPS = 5  # from a link to the file behind it
MAX_NAMES, MAX_NAMES_CHARS = 10_000, 1_000_000  # that links give to files
MAX_JUDGED_BYTES = 32 * 1024 * 1024  # of settings that are compared, both sides: what comes after counts as edited


@dataclass(slots=True)
class Trees:
    """Where the files of both sides can be read. Without a mirror nobody looks into them: names must do."""

    mirror: Mirror | None
    base: str
    tree: str
    _unjudged_bytes: int = MAX_JUDGED_BYTES
    _other_names: dict[str, str] = field(default_factory=dict[str, str])

    async def paths(self) -> list[str]:
        return await self.mirror.files(self.base) if self.mirror else []

    async def links(self) -> dict[str, str]:
        """The base's, each with the path in the repository that it leads to; not those that lead out of it."""
        if self.mirror is None:
            return {}
        try:
            found = await links_of(self.mirror.git_dir, self.base, max_bytes=MAX_SETTINGS_BYTES)
        except OutputTooLarge:
            return {}
        places = {link: posixpath.normpath(posixpath.join(posixpath.dirname(link), to)) for link, to in found.items()}
        return {link: place for link, place in places.items() if not place.startswith(("/", "../"))}

    async def other_names(self, paths: Collection[str]) -> dict[str, str]:
        """Names by which the base's links lead to these paths, each with its path; `before` and `has_other_settings`
        know them from then on. The first `MAX_NAMES` of them, those that are one file's before those of folders."""
        links, files, known = await self.links(), frozenset(paths), sorted(paths)
        places = dict(links)
        for _ in range(MAX_HOPS):
            places = {link: links.get(place, place) for link, place in places.items()}
        names: dict[str, str] = {}
        chars_left = MAX_NAMES_CHARS
        for link, place in sorted(places.items(), key=lambda one: (one[1] not in files, one[0])):
            for path in [place] if place in files else _below(place, known):
                name = f"{link}/{path}" if place == "." else link + path[len(place) :]
                chars_left -= len(name)
                if chars_left < 0 or len(names) == MAX_NAMES:
                    break
                names[name] = path
        self._other_names = names
        return names

    async def before(self, path: str) -> bytes | None:
        return await self._read(self.base, self._other_names.get(path, path))

    async def text(self, path: str, *, after: bool = False) -> str | None:
        """None where it cannot be read, or is not there; in its place a byte that is no UTF-8 is a `\\ufffd`."""
        try:
            content = await self._read(self.tree if after else self.base, path)
        except OutputTooLarge:
            return None
        return None if content is None else content.decode("utf-8", "replace")

    async def texts(self, paths: Sequence[str]) -> list[str | None]:
        """Of the base's files, read together; empty where there is none. The first that have room in
        `MAX_TEXTS_BYTES`; the others are None, and so is one that is too large."""
        if self.mirror is None or not paths:
            return [""] * len(paths)
        git_dir, named = self.mirror.git_dir, [path for path in paths if "\n" not in path]
        ids = dict(zip(named, await ids_at(git_dir, self.base, named), strict=True))
        blobs = list(dict.fromkeys(filter(None, ids.values())))
        sizes = zip(blobs, await sizes_of(git_dir, blobs), strict=True)
        small = {blob: size for blob, size in sizes if size <= MAX_SETTINGS_BYTES}
        read = list(small)[: bisect_right(list(accumulate(small.values())), MAX_TEXTS_BYTES)]
        contents = await contents_of(git_dir, read, max_bytes=MAX_TEXTS_BYTES)
        texts: dict[str, str | None] = {"": "", **dict.fromkeys(blobs)}
        texts |= {blob: content.decode("utf-8", "replace") for blob, content in zip(read, contents, strict=True)}
        return [texts[ids.get(path, "")] for path in paths]

    async def lines_with(self, words: Sequence[str], *, after: bool = False) -> list[tuple[str, str]] | None:
        """Lines of text files that hold one of these words, each with its path; None where nobody knows them all."""
        if self.mirror is None:
            return None
        tree = self.tree if after else self.base
        try:
            return await lines_with(self.mirror.git_dir, tree, words, max_bytes=MAX_LINES_BYTES)
        except OutputTooLarge:
            return None

    async def has_other_settings(self, part: FilePatch, asked: Asked) -> bool:
        old = part.old_path or part.path
        if self._unjudged_bytes < 0:
            return True
        try:
            before, after = (
                await self.before(old),
                await self._read(self.tree, self._other_names.get(part.path, part.path)),
            )
        except OutputTooLarge:
            return True
        if self.mirror is None:
            return True
        if part.mode in LINKS:  # what is behind it, or was, is no part of the change
            before = after = None
        self._unjudged_bytes -= len(before or b"") + len(after or b"")
        if posixpath.basename(old) == posixpath.basename(part.path) and (old == part.path or not is_build_file(old)):
            return has_other_settings(part.path, before, after, asked)
        gone = holds_settings(old) and has_other_settings(old, before, None, asked)
        return gone or (holds_settings(part.path) and has_other_settings(part.path, None, after, asked))

    async def _read(self, tree: str, path: str) -> bytes | None:
        if self.mirror is None:
            return None
        return await file_at(self.mirror.git_dir, tree, path, max_bytes=MAX_SETTINGS_BYTES)


def _below(folder: str, paths: Sequence[str]) -> Iterator[str]:
    """Of the sorted `paths` those in a folder."""
    start = "" if folder == "." else f"{folder}/"
    for at in range(bisect_left(paths, start), len(paths)):
        if not paths[at].startswith(start):
            return
        yield paths[at]
