"""From the results of a repository's shards to one line of commits, and an account of what became of each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from envelope.errors import ErrorCode
from envelope.events import MergeStep
from envelope.messages import PatchRef, TaskResult
from envelope.scope import allows
from repo.merge import Collision, Merged, merge_patches
from repo.mirror import Mirror
from transport.blobs.base import Blobs

from ..driver import Ended, completed
from ..repositories import as_changeset, paths_of
from .report import DETAIL_CHARS, CollisionReport, Outcome, ShardReport

MAX_STEP_PATHS = 50  # for people to look at; the report's patch lists them all


@dataclass(frozen=True, slots=True)
class MergeOutcome:
    commit: str
    shards: tuple[ShardReport, ...]
    collisions: tuple[CollisionReport, ...]

    @property
    def steps(self) -> list[MergeStep]:
        collided = {collision.key: collision for collision in self.collisions}
        return [_step(shard, collided.get(shard.key)) for shard in self.shards if shard.outcome != "failed"]


async def merge_shards(
    mirror: Mirror, blobs: Blobs, base: str, endings: Mapping[str, Ended], *, batch: str
) -> MergeOutcome:
    """Merge what is acceptable in the order of the keys: the same results give the same commit id."""
    ordered = dict(sorted(endings.items()))
    objections = {key: _objection(ended, base) for key, ended in ordered.items()}
    patches = [
        await as_changeset(blobs, key, f"{batch}: {key}", patch)
        for key, ended in ordered.items()
        if not objections[key] and (patch := _patch_of(ended.result)) is not None
    ]
    merged = await merge_patches(mirror, base, patches)
    reports = [_report(key, ended, objections[key], merged) for key, ended in ordered.items()]
    return MergeOutcome(merged.commit, tuple(reports), tuple(map(_collision_report, merged.collisions)))


def _patch_of(result: TaskResult) -> PatchRef | None:
    return result.patch if result.patch is not None and result.patch.files else None


def _objection(ended: Ended, base: str) -> str:
    """Why a shard's patch must not be merged; empty when it may. A worker has checked this, too."""
    patch = _patch_of(ended.result)
    if not completed(ended.result) or patch is None:
        return ""
    if patch.base != base:
        return f"the patch is against {patch.base[:12]}, not against {base[:12]}"
    scope = ended.work.request.auth_scope
    outside = [path for path in paths_of(patch) if not allows(scope, "edit", path)]
    return f"the patch changes {outside[0]}, which is not in the shard's scope" if outside else ""


def _report(key: str, ended: Ended, objection: str, merged: Merged) -> ShardReport:
    result, patch = ended.result, _patch_of(ended.result)
    collision = next((collision for collision in merged.collisions if collision.key == key), None)
    error = result.errors[0] if result.errors else None
    detail = objection or (error.message if error else "") or (collision.detail if collision else "")
    return ShardReport(
        key=key,
        outcome=_outcome(ended, objection, collision),
        task_id=result.task_id,
        trace_id=result.trace_id,
        reused=ended.reused,
        files=len(patch.files) if patch else 0,
        added=patch.added if patch else 0,
        removed=patch.removed if patch else 0,
        cost_microusd=ended.cost_microusd,
        code=error.code if error else (ErrorCode.OUT_OF_SCOPE if objection else ""),
        detail=detail[:DETAIL_CHARS],
    )


def _outcome(ended: Ended, objection: str, collision: Collision | None) -> Outcome:
    if not completed(ended.result):
        return "failed"
    if objection:
        return "set_aside"
    if collision is not None:
        return "collision"
    return "applied" if _patch_of(ended.result) else "empty"


def _collision_report(collision: Collision) -> CollisionReport:
    return CollisionReport(
        key=collision.key,
        with_keys=collision.other_keys,
        paths=collision.paths,
        detail=collision.detail[:DETAIL_CHARS],
    )


def _step(shard: ShardReport, collision: CollisionReport | None) -> MergeStep:
    assert shard.outcome != "failed"
    return MergeStep(
        key=shard.key,
        outcome=shard.outcome,
        paths=collision.paths[:MAX_STEP_PATHS] if collision else (),
        with_keys=collision.with_keys[:MAX_STEP_PATHS] if collision else (),
        detail=shard.detail,
    )
