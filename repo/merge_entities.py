"""Files of a merge, judged by what their lines define: conflicts that are none, and clean merges that cannot stand."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Collection, Mapping, Sequence

from .apart import Apart
from .content import REGULAR_FILES
from .data_keys import form_of
from .merge_tree import BASE, OURS, THEIRS, TreeMerge, Version, version_at
from .scratch import Scratch
from .syntaxes import CONTRADICTION, MAX_SOURCE_BYTES, SUFFIXES

MAX_FILES = 20  # a patch that is in conflict all over needs somebody who thinks
MAX_KEPT = 250  # texts, of a MiB at most each: those of a file that all patches change are read again and again
BY_CONTENT = frozenset({"CONFLICT (contents)"})  # git's word


Versions = Sequence[Version]  # the base's, and what each side made of it


def versions_of(stages: Mapping[int, Version]) -> Versions | None:
    return [stages[stage] for stage in (BASE, OURS, THEIRS)] if set(stages) == {BASE, OURS, THEIRS} else None


def is_by_content(merged: TreeMerge) -> bool:
    """Only the content of files is in conflict: nothing that one side deleted, renamed or gave another kind."""
    return merged.kinds == BY_CONTENT


def is_known(path: bytes) -> bool:
    """Source of a language whose definitions are told apart, or data of a format whose keys are."""
    return _language(path) is not None or form_of(os.fsdecode(path)) is not None


def _language(path: bytes) -> str | None:
    return SUFFIXES.get(posixpath.splitext(os.fsdecode(path))[1])


def two_meanings(paths: Sequence[str]) -> str:
    """What is said of files that git merges, and that cannot stand so."""
    return f"CONFLICT (definitions): in {', '.join(paths)} one name has two meanings, or none is left"


class Reader(Apart):
    """Reads versions of files by what they define, in processes that last as long as one merge."""

    def __init__(self, own: Scratch) -> None:
        super().__init__()
        self._own = own
        self._texts: dict[str, bytes] = {}

    async def united(self, tree: str, files: Mapping[bytes, Versions]) -> str | None:
        """The tree with each of `files` united from all its versions, or None when not all of them can be."""
        if len(files) > MAX_FILES:
            return None
        entries: list[bytes] = []
        for path, versions in files.items():
            content = await self._united_file(path, versions)
            if content is None:
                return None
            blob = (await self._own.git("hash-object", "-w", "--stdin", "--no-filters", stdin=content)).line
            entries.append(b"%s %s\t%s\0" % (versions[0].mode.encode(), blob.encode(), path))
        await self._own.git("read-tree", tree)
        await self._own.git("update-index", "-z", "--index-info", stdin=b"".join(entries))
        return (await self._own.git("write-tree")).line

    async def _united_file(self, path: bytes, versions: Versions) -> bytes | None:
        language = _language(path)
        modes = {version.mode for version in versions}
        if language is None or len(modes) > 1 or modes.pop().encode() not in REGULAR_FILES:
            return None
        base, *sides = versions
        ids = (base.id, *dict.fromkeys(side.id for side in sides))
        return await self._ask_of("repo.entities", language, ids=ids)

    async def contradicted(self, commits: Sequence[str], paths: Collection[bytes]) -> list[bytes]:
        """Those of `paths` that git has merged, and that cannot mean what both sides say. `commits`: the base, both
        sides, and git's tree."""
        found: list[bytes] = []
        for path in filter(is_known, paths):
            versions = [version for at in commits if (version := await version_at(self._own, at, path)) is not None]
            is_of_both = len(versions) == len(commits) and len(set(versions[:3])) == 3
            if is_of_both and await self._contradict(path, versions):
                found.append(path)
        return found

    async def _contradict(self, path: bytes, versions: Versions) -> bool:
        """No, where nobody can tell."""
        language, form = _language(path), form_of(os.fsdecode(path))
        if any(version.mode.encode() not in REGULAR_FILES for version in versions):
            return False
        ids = [version.id for version in versions]
        if language is not None:
            return await self._ask_of("repo.entities", language, "compare", ids=ids) == CONTRADICTION
        return form is not None and await self._ask_of("repo.data_keys", form, ids=ids) == CONTRADICTION

    async def across(self, path: str, file: str, versions: Sequence[Version | None]) -> bool:
        """Whether `file` begins to use what `path` no longer has: before and after of both, each by one patch."""
        language = _language(os.fsencode(path))
        if language is None or any(one is not None and one.mode.encode() not in REGULAR_FILES for one in versions):
            return False
        ids = [one.id if one is not None else "" for one in versions]
        return await self._ask_of("repo.entities", language, "across", path, file, ids=ids) == CONTRADICTION

    async def text_of(self, version: Version) -> bytes:
        """Nothing of what is too large to be read."""
        text = await self._blob(version.id)
        return text if len(text) <= MAX_SOURCE_BYTES else b""

    async def _ask_of(self, module: str, *words: str, ids: Sequence[str]) -> bytes | None:
        texts = [await self._blob(blob) for blob in ids]
        if any(len(text) > MAX_SOURCE_BYTES for text in texts):
            return None
        return await self.ask(module, *words, texts=texts)

    async def _blob(self, blob: str) -> bytes:
        if blob and blob not in self._texts:
            if len(self._texts) >= MAX_KEPT:
                self._texts.clear()
            self._texts[blob] = (await self._own.git("cat-file", "blob", blob)).stdout
        return self._texts[blob] if blob else b""
