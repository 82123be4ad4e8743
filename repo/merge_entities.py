"""What is in conflict by lines, but not by what the lines define."""

from __future__ import annotations

import os
import posixpath

from .apart import run_apart
from .content import REGULAR_FILES
from .merge_tree import BASE, OURS, THEIRS, TreeMerge, Version
from .scratch import Scratch
from .syntaxes import SUFFIXES

MAX_SOURCE_BYTES = 1024 * 1024  # parsed in half a second; larger files are generated
# A process takes 0.1 s; a patch that is in conflict all over needs somebody who thinks.
MAX_FILES = 20
BY_CONTENT = frozenset({"CONFLICT (contents)"})  # git's word


async def united(own: Scratch, merged: TreeMerge) -> str | None:
    """The tree of a merge with all that was in conflict united, or None when not all of it can be.

    Only the content of files counts: what one side deleted, renamed or gave another kind stays a conflict.
    """
    if merged.kinds != BY_CONTENT or len(merged.stages) > MAX_FILES:
        return None
    entries: list[bytes] = []
    for path, versions in merged.stages.items():
        content = await _united_file(own, path, versions)
        if content is None:
            return None
        blob = (await own.git("hash-object", "-w", "--stdin", "--no-filters", stdin=content)).line
        entries.append(b"%s %s\t%s\0" % (versions[OURS].mode.encode(), blob.encode(), path))
    await own.git("read-tree", merged.tree)
    await own.git("update-index", "-z", "--index-info", stdin=b"".join(entries))
    return (await own.git("write-tree")).line


async def _united_file(own: Scratch, path: bytes, versions: dict[int, Version]) -> bytes | None:
    language = SUFFIXES.get(posixpath.splitext(os.fsdecode(path))[1])
    modes = {version.mode for version in versions.values()}
    if language is None or versions.keys() != {BASE, OURS, THEIRS} or len(modes) > 1:
        return None
    if modes.pop().encode() not in REGULAR_FILES:
        return None
    texts = [await _blob(own, versions[stage].id) for stage in (BASE, OURS, THEIRS)]
    told = b"".join(b"%d\n%s" % (len(text), text) for text in texts)
    if any(len(text) > MAX_SOURCE_BYTES for text in texts):
        return None
    return await run_apart("repo.entities", language, told=told)


async def _blob(own: Scratch, blob: str) -> bytes:
    return (await own.git("cat-file", "blob", blob)).stdout
