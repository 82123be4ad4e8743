"""Whose edits a person has asked for by what they wrote, as the gate wants to know it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from envelope.scope import Scope

from ..gating.names import is_test_file
from .shards import Shard
from .spec import Shards


def asked_for(shards: Shards, made: Sequence[Shard], *, tests: Iterable[str]) -> Scope:
    """The grants of `made`, as far as their paths were written down, and `also_edit`.

    A glob over everything meets tests as well, and its shards are grants with the names of tests; but nobody has said
    that tests are to be edited. `tests`: patterns of test files beside the usual names.
    """
    edits = (shard.edits for shard in made) if _names_them(shards, tests) else ()
    return (*edits, *(f"edit:{pattern}" for pattern in shards.also_edit))


def _names_them(shards: Shards, tests: Iterable[str]) -> bool:
    folders = f"{shards.directories.rstrip('/')}/**" if shards.directories is not None else None
    return shards.files is not None or is_test_file(folders or shards.glob or "", tests)
