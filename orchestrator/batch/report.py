"""What a batch came to, as data: the result's structured output, and the whole of it as an attachment."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Literal, Self

from pydantic import Field

from envelope.events import GateVerdict
from envelope.gate import GateEvidence, GateObjection
from envelope.messages import PatchRef, TaskResult
from envelope.wire import Wire

from ..gating.text import excused_text, proof_text

REPORT_NAME = "report.json"
# A result is at most 1 MiB, of which its own patch's list of files may take a quarter.
MAX_REPORT_BYTES = 512 * 1024
MAX_LISTED = 200
DETAIL_CHARS = 500  # of a shard: what it says in full is in its own result

Outcome = Literal["applied", "empty", "collision", "set_aside", "failed"]


class ShardReport(Wire):
    """One shard: `empty` changed nothing; `set_aside` was not acceptable as a patch; `failed` ended badly.

    `merged_by`: as what its patch came in (`as it is`, by `lines`, by `entities`, or `resolved` by the agent whose task
    is `resolved_by`). `evidence`: what the gate saw with it, if it was set aside for that, and `objections` all that
    the gate has against it. `patch`: the attachment that keeps a patch which did not land.
    """

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
    hint: str = ""
    merged_by: str = ""
    resolved_by: str = ""
    evidence: GateVerdict | None = None
    objections: tuple[GateObjection, ...] = ()
    patch: str = ""

    @property
    def said(self) -> str:
        """What went wrong, and what may mend it."""
        return "; ".join(filter(None, (self.detail or self.outcome, self.hint)))


class OverlapReport(Wire):
    """Two patches that meet in `paths`; git cannot merge them by lines at `conflicts`."""

    keys: tuple[str, str]
    paths: tuple[str, ...]
    conflicts: tuple[str, ...] = ()


class CollisionReport(Wire):
    """`key` was set aside because patches `with_keys`, which landed, change the same `paths` differently.

    Both sides are kept: `task_id` and `with_tasks` have them, and the batch this one's as an attachment, too.
    """

    key: str
    with_keys: tuple[str, ...]
    paths: tuple[str, ...]
    detail: str
    task_id: str = ""
    with_tasks: tuple[str, ...] = ()


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
    evidence: GateEvidence = GateEvidence()
    shards: tuple[ShardReport, ...] = ()
    collisions: tuple[CollisionReport, ...] = ()
    overlaps: tuple[OverlapReport, ...] = ()  # as they were foreseen
    counts: dict[Outcome, int] = Field(default_factory=dict[Outcome, int])  # of all shards, listed or not
    cost_microusd: int = 0

    @classmethod
    def of(cls, shards: Sequence[ShardReport], **fields: Any) -> Self:
        """With what the shards come to."""
        counts = Counter[Outcome](shard.outcome for shard in shards)
        return cls(shards=tuple(shards), counts=counts, cost_microusd=sum(s.cost_microusd for s in shards), **fields)

    @property
    def changed(self) -> bool:
        return self.commit != self.base

    def count(self, *outcomes: Outcome) -> int:
        return sum(self.counts.get(outcome, 0) for outcome in outcomes)


class BatchReport(Wire):
    """`listed` is false when this is a shortened one; the attachment `report.json` is always whole."""

    name: str
    branch: str = ""
    repositories: tuple[RepositoryReport, ...]
    listed: bool = True

    @property
    def verified(self) -> bool:
        """Of what was changed, all; where nothing was, nothing is."""
        changed = [repository.verified for repository in self.repositories if repository.changed]
        return bool(changed) and all(changed)

    @property
    def excused(self) -> int:
        """How many tests fail after verified changes, as they do on their bases."""
        return sum(one.after.failed for one in self.repositories if one.changed and one.verified and one.after)

    @property
    def proof(self) -> str:
        """In words."""
        return proof_text(verified=self.verified, reason=excused_text(self.excused) if self.verified else "")

    @property
    def cost_microusd(self) -> int:
        return sum(repository.cost_microusd for repository in self.repositories)

    @property
    def cost_per_accepted_microusd(self) -> int | None:
        """What all that was tried has cost, for each shard that landed; None where none did."""
        landed = sum(repository.count("applied") for repository in self.repositories)
        return self.cost_microusd // landed if landed else None

    @property
    def shards(self) -> list[ShardReport]:
        return [shard for repository in self.repositories for shard in repository.shards]

    def abridged(self) -> BatchReport:
        """As it fits into a result: whole, or with what needs a look, or with counts and commits alone."""
        for shorten in (None, _worth_a_look, _bare):
            report = self if shorten is None else self._each(shorten)
            if len(report.model_dump_json()) <= MAX_REPORT_BYTES:
                return report
        return self._each(_bare)

    def _each(self, shorten: Callable[[RepositoryReport], RepositoryReport]) -> BatchReport:
        kept = tuple(shorten(repository) for repository in self.repositories)
        return self.model_copy(update={"repositories": kept, "listed": False})

    def as_json(self) -> dict[str, Any]:
        """With what is computed from the rest, so that a reader of the JSON need not."""
        computed = {"verified": self.verified, "excused": self.excused, "cost_microusd": self.cost_microusd}
        return self.model_dump(mode="json") | computed

    def text(self) -> str:
        """A line per repository, for people."""
        return "\n".join(_line(repository) for repository in self.repositories)


def report_of(result: TaskResult) -> BatchReport | None:
    """As the result has it, perhaps shortened; None when the batch ended before there was anything to report."""
    return BatchReport.model_validate(result.output.structured) if result.output.structured else None


def _worth_a_look(repository: RepositoryReport) -> RepositoryReport:
    shards = [shard for shard in repository.shards if shard.outcome not in ("applied", "empty")]
    kept = {"shards": tuple(shards[:MAX_LISTED]), "collisions": repository.collisions[:MAX_LISTED], "overlaps": ()}
    return repository.model_copy(update=kept)


def _bare(repository: RepositoryReport) -> RepositoryReport:
    patch = repository.patch.model_copy(update={"files": ()}) if repository.patch else None
    evidence = GateEvidence(result=repository.evidence.result)
    bare = {"shards": (), "collisions": (), "overlaps": (), "patch": patch, "evidence": evidence}
    return repository.model_copy(update=bare)


def _line(repository: RepositoryReport) -> str:
    word = "verified" if repository.verified else "done, not verified"  # `reason` follows at the end
    counts = {
        "applied": repository.count("applied"),
        "unchanged": repository.count("empty"),
        "in collision": repository.count("collision"),
        "failed": repository.count("failed", "set_aside"),
    }
    counted = ", ".join(f"{count} {name}" for name, count in counts.items() if count)
    tests = repository.after.tests if repository.after else None
    proof = f"; the gate ran {tests} tests" if tests is not None else ""
    why = f": {repository.reason}" if repository.reason else ""
    return f"{repository.name}: {word}; shards: {counted or 'none'}{proof}{why}"
