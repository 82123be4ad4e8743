"""The shards of a repository at a commit: the one way to find them, for who looks at a batch and for who runs it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path, PurePosixPath

from repo.content import blobs_of, contents_of
from repo.errors import OutputTooLarge, PatternRefused
from repo.fairness import beside
from repo.search import Occurrence, occurrences
from transport.blobs.owners import acting_tenant

from ..errors import BadInput
from ..globs import matching
from ..project.python_version import DECLARED_IN, Version, oldest_python, target_version
from .contents import with_contents
from .shards import Found, Shard, shards_of
from .shorthands import TARGET_VERSION
from .spec import BatchSpec, Shards

MAX_METADATA_BYTES = 64 * 1024 * 1024  # of all packages of a repository
MAX_MATCHES = 20  # different ones of a file; more would be no help to a prompt


async def survey(
    spec: BatchSpec, *, name: str, git_dir: Path, base: str, max_shards: int, found: Found | None = None
) -> list[Shard]:
    """`found`: by a source that the repository alone does not answer (see `chosen`).

    `BadInput` for a glob that matches nothing, and for more shards than allowed.
    """
    blobs = await blobs_of(git_dir, base)
    if spec.shards.query is not None:
        found = await _searched(spec.shards, git_dir, base)
    # seconds, where there are many globs and files: others go on meanwhile
    choose = partial(shards_of, blobs, spec.shards, max_shards=max_shards, name=name, found=found)
    shards = await beside.run(acting_tenant(), choose)
    if spec.says(TARGET_VERSION):
        shards = _with_target_versions(shards, await _pythons(git_dir, blobs))
    return await beside.run(acting_tenant(), partial(with_contents, shards, blobs, spec.shards.depends_on))


async def oldest_of(git_dir: Path, base: str) -> Version | None:
    """The oldest Python that any package of the repository says it supports."""
    return min((await _pythons(git_dir, await blobs_of(git_dir, base))).values(), default=None)


async def _pythons(git_dir: Path, blobs: Mapping[str, str]) -> dict[PurePosixPath, Version]:
    """The oldest Python of each folder whose own files tell of one."""
    paths = [path for path in map(PurePosixPath, blobs) if path.name in DECLARED_IN]
    try:
        ids = [blobs[str(path)].split(" ")[2] for path in paths]
        contents = await contents_of(git_dir, ids, max_bytes=MAX_METADATA_BYTES)
    except OutputTooLarge:  # no metadata that anybody wrote
        return {}
    texts: dict[PurePosixPath, dict[str, str]] = {}
    for path, content in zip(paths, contents, strict=True):
        texts.setdefault(path.parent, {})[path.name] = content.decode("utf-8", "replace")
    return {folder: oldest for folder, told in texts.items() if (oldest := oldest_python(told)) is not None}


def _with_target_versions(shards: Iterable[Shard], pythons: Mapping[PurePosixPath, Version]) -> list[Shard]:
    """Each of the package that it is in, or else of those around it."""

    def filled(shard: Shard) -> Shard:
        path = PurePosixPath(shard.path)
        oldest = next((pythons[each] for each in (path, *path.parents) if each in pythons), None)
        return replace(shard, found={TARGET_VERSION: target_version(oldest), **shard.found})

    return [filled(shard) for shard in shards]


async def _searched(shards: Shards, git_dir: Path, base: str) -> Found:
    try:
        places = await occurrences(git_dir, base, shards.query or "", word=shards.symbol is not None)
    except PatternRefused as e:
        hint = "write an extended POSIX expression, such as `old_name\\(`"
        raise BadInput(f"shards.match: {e}", hint=hint) from e
    by_path: dict[str, list[Occurrence]] = {}
    for place in places:
        by_path.setdefault(place.path, []).append(place)
    chosen = matching(shards.glob or "**", by_path, exclude=shards.exclude)
    return {path: _values(by_path[path], shards) for path in chosen}


def _values(places: Iterable[Occurrence], shards: Shards) -> dict[str, str]:
    places = list(places)
    texts = list(dict.fromkeys(place.text for place in places))
    lines = list(dict.fromkeys(str(place.line) for place in places))
    symbol = {} if shards.symbol is None else {"symbol": shards.symbol}
    return {"match": ", ".join(texts[:MAX_MATCHES]), "lines": ", ".join(lines[:MAX_MATCHES]), **symbol}
