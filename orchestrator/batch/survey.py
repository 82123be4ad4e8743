"""The shards of a repository at a commit: the one way to find them, for who looks at a batch and for who runs it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from repo.content import blobs_of
from repo.errors import PatternRefused
from repo.search import Occurrence, occurrences

from ..errors import BadInput
from ..globs import matching
from .contents import with_contents
from .shards import Found, Shard, shards_of
from .spec import BatchSpec, Shards

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
    shards = shards_of(blobs, spec.shards, max_shards=max_shards, name=name, found=found)
    return with_contents(shards, blobs, spec.shards.depends_on)


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
