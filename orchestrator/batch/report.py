"""What a batch came to, as data: the result's structured output, and the whole of it as an attachment."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

from envelope.events import GateVerdict
from envelope.messages import PatchRef
from envelope.wire import Wire

REPORT_NAME = "report.json"
# The result is at most 1 MiB, a shard's line about 400 bytes: a larger batch lists only what needs a look there.
MAX_LISTED_SHARDS = 500

Outcome = Literal["applied", "empty", "collision", "set_aside", "failed"]


class ShardReport(Wire):
    """One shard: `empty` changed nothing; `set_aside` was not acceptable as a patch; `failed` ended badly."""

    key: str
    outcome: Outcome
    task_id: str
    trace_id: str
    reused: bool = False
    files: int = 0
    added: int = 0
    removed: int = 0
    cost_microusd: int = 0
    code: str = ""  # of its error
    detail: str = ""


class CollisionReport(Wire):
    """`key` was set aside because patches `with_keys`, which landed, change the same `paths` differently."""

    key: str
    with_keys: tuple[str, ...]
    paths: tuple[str, ...]
    detail: str


class RepositoryReport(Wire):
    """`commit` equals `base` when nothing landed; `bundle` names the attachment that holds the commit (or is empty).

    `done` without `verified` means that nobody has proved the change; `reason` says why.
    """

    name: str
    base: str
    commit: str
    bundle: str = ""
    patch: PatchRef | None = None
    verified: bool = False
    reason: str = ""
    hint: str = ""
    before: GateVerdict | None = None
    after: GateVerdict | None = None
    shards: tuple[ShardReport, ...] = ()
    collisions: tuple[CollisionReport, ...] = ()

    @property
    def changed(self) -> bool:
        return self.commit != self.base

    def count(self, *outcomes: Outcome) -> int:
        return sum(shard.outcome in outcomes for shard in self.shards)


class BatchReport(Wire):
    """`listed` is false when `shards` hold only those that need a look; the attachment `report.json` has them all."""

    name: str
    branch: str = ""
    repositories: tuple[RepositoryReport, ...]
    listed: bool = True

    @property
    def verified(self) -> bool:
        return all(repository.verified for repository in self.repositories)

    @property
    def cost_microusd(self) -> int:
        return sum(shard.cost_microusd for shard in self.shards)

    @property
    def shards(self) -> list[ShardReport]:
        return [shard for repository in self.repositories for shard in repository.shards]

    def abridged(self) -> BatchReport:
        """As it fits into a result."""
        if len(self.shards) <= MAX_LISTED_SHARDS:
            return self
        kept = (
            repository.model_copy(update={"shards": tuple(_worth_a_look(repository.shards))})
            for repository in self.repositories
        )
        return self.model_copy(update={"repositories": tuple(kept), "listed": False})

    def as_json(self) -> dict[str, Any]:
        """With what is computed from the rest, so that a reader of the JSON need not."""
        computed = {"verified": self.verified, "cost_microusd": self.cost_microusd}
        return self.model_dump(mode="json") | computed

    def text(self) -> str:
        """A line per repository, for people."""
        return "\n".join(_line(repository) for repository in self.repositories)


def _worth_a_look(shards: Iterable[ShardReport]) -> list[ShardReport]:
    return [shard for shard in shards if shard.outcome not in ("applied", "empty")][:MAX_LISTED_SHARDS]


def _line(repository: RepositoryReport) -> str:
    word = "verified" if repository.verified else "done, not verified"
    counts = {
        "applied": repository.count("applied"),
        "unchanged": repository.count("empty"),
        "in collision": repository.count("collision"),
        "failed": repository.count("failed", "set_aside"),
    }
    told = ", ".join(f"{count} {name}" for name, count in counts.items() if count)
    tests = repository.after.tests if repository.after else None
    proof = f"; the gate ran {tests} tests" if tests is not None else ""
    why = f": {repository.reason}" if repository.reason else ""
    return f"{repository.name}: {word}; shards: {told or 'none'}{proof}{why}"
