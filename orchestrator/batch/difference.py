"""What a batch would do that its last run has not done: the file's own changes, and the shards' by their work. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from difflib import unified_diff

from pydantic import Field

from envelope.wire import Wire

from ..submit import RepositoryInput
from .shards import Shard
from .spec import BatchSpec
from .stages import work_key

WORDS = ("new", "changed", "repeated", "same", "gone")


class Difference(Wire):
    """`earlier` is the last run's task. `spec`: how the file changed, as lines. The rest are shards, by
    `repository:key`: those that are there for the first time, that are done anew because their work has changed, that
    were not done and come again (with why), that are done and taken as they are, that are no more.
    """

    earlier: str
    spec: tuple[str, ...] = ()
    new: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    repeated: dict[str, str] = Field(default_factory=dict[str, str])
    same: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()

    @property
    def counts(self) -> str:
        """
        >>> Difference(earlier="", new=("a", "b"), same=("c",)).counts
        '2 new, 0 changed, 0 repeated, 1 same, 0 gone'
        """
        return ", ".join(f"{len(getattr(self, word))} {word}" for word in WORDS)

    @property
    def runs(self) -> int:
        """How many shards it would do; the others are done."""
        return len(self.new) + len(self.changed) + len(self.repeated)

    def repeating(self, whys: Mapping[str, str]) -> Difference:
        """With those of the same shards that were not done."""
        same = tuple(key for key in self.same if key not in whys)
        return self.model_copy(update={"same": same, "repeated": dict(whys)})


def works_of(shards: Iterable[Shard], spec: BatchSpec, given: RepositoryInput) -> dict[str, str]:
    """The shards of one repository: what each is called, and what its work is."""
    return {f"{given.name}:{shard.key}": work_key(shard, spec, given) for shard in shards}


def difference(
    before: Mapping[str, str], after: Mapping[str, str], *, specs: tuple[BatchSpec, BatchSpec], earlier: str
) -> Difference:
    """What a second run would do, by the keys of both runs' work; `earlier`: the run before."""
    both = sorted(before.keys() & after.keys())
    return Difference(
        earlier=earlier,
        spec=tuple(_spec_lines(*specs)),
        new=tuple(sorted(after.keys() - before.keys())),
        changed=tuple(key for key in both if before[key] != after[key]),
        same=tuple(key for key in both if before[key] == after[key]),
        gone=tuple(sorted(before.keys() - after.keys())),
    )


def _spec_lines(before: BatchSpec, after: BatchSpec) -> Iterable[str]:
    old, new = (json.dumps(spec.model_dump(mode="json", exclude_defaults=True), indent=2) for spec in (before, after))
    return unified_diff(old.splitlines(), new.splitlines(), "the last run", "the file now", lineterm="", n=1)
