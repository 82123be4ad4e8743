"""Why shards were not done, like with like: a thousand failures are a handful of causes. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from .failures import NEXT, FailureClass, class_of
from .report import BatchReport, ShardReport

UNDONE = ("failed", "set_aside", "collision")
MAX_JUDGED_CHARS = 500
# What differs between two failures of one cause: paths, numbers, ids, quoted names.
PARTICULAR = re.compile(r"""'[^']*'|"[^"]*"|`[^`]*`|\S*/\S+|\b[0-9a-f]{8,}\b|\d+""")


@dataclass(frozen=True, slots=True)
class Cause:
    """`detail` is of its first shard; `shards` come with the names of their repositories."""

    code: str
    detail: str
    shards: tuple[tuple[str, ShardReport], ...]

    @property
    def kind(self) -> FailureClass | None:
        """None of patches that met in one place: nothing has failed there, and the merge says how to go on."""
        return None if self.shards[0][1].outcome == "collision" else class_of(self.code)

    @property
    def next(self) -> str:
        """What the first shard's own error advises, if it does."""
        if self.kind is None:
            return "run the batch again on top of what landed"
        hint = self.shards[0][1].hint
        mark = "" if hint.endswith("?") else ";"
        return f"{hint}{mark} then: muster batch retry" if hint else NEXT[self.kind]


def causes(report: BatchReport) -> list[Cause]:
    """The commonest first. Two failures are alike when code and words are, whatever files and numbers they name."""
    found: dict[tuple[str, str], list[tuple[str, ShardReport]]] = {}
    for name, shard in _undone(report):
        found.setdefault((_code(shard), in_general(shard.detail)), []).append((name, shard))
    grouped = [Cause(code, shards[0][1].detail, tuple(shards)) for (code, _), shards in found.items()]
    return sorted(grouped, key=lambda cause: -len(cause.shards))


def in_general(detail: str) -> str:
    """What two failures of one cause say alike.

    >>> in_general("src/a.py: line 7") == in_general("src/b.py: line 12")
    True
    """
    return PARTICULAR.sub("…", detail[:MAX_JUDGED_CHARS])


def _undone(report: BatchReport) -> Iterator[tuple[str, ShardReport]]:
    for repository in report.repositories:
        yield from ((repository.name, shard) for shard in repository.shards if shard.outcome in UNDONE)


def _code(shard: ShardReport) -> str:
    return shard.code or shard.outcome
