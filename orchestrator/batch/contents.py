"""What a shard's work depends on, as one word: as long as that is the same, what was done need not be done again. Pure.

A shard depends on the files that it is about, and on what the batch file names in `depends_on`. The base commit is none
of it: a commit that changes one file of two hundred makes one shard new.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from envelope.ids import digest_of

from ..globs import matching, require_few
from .shards import WHOLE, Shard

AFTER_SLASH = chr(ord("/") + 1)  # what sorts right behind everything in a folder


def with_contents(shards: Iterable[Shard], blobs: Mapping[str, str], depends_on: Sequence[str]) -> list[Shard]:
    """`blobs`: a commit's files, each with what stands for its content."""
    paths = sorted(blobs)
    require_few(len(depends_on), len(paths))
    around = {path for glob in depends_on for path in matching(glob, paths)}
    beside = _word(sorted(around), blobs)
    return [replace(shard, content=digest_of(beside, _word(_paths_of(shard, paths), blobs))) for shard in shards]


def _paths_of(shard: Shard, paths: Sequence[str]) -> Sequence[str]:
    if shard.key == WHOLE:
        return paths
    if not shard.key.endswith("/"):
        return (shard.key,)
    return paths[bisect_left(paths, shard.key) : bisect_left(paths, shard.path + AFTER_SLASH)]


def _word(paths: Iterable[str], blobs: Mapping[str, str]) -> str:
    return digest_of(*(f"{path}\n{blobs.get(path, '')}" for path in paths))
