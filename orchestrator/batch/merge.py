"""From the results of a repository's shards to one line of commits, and an account of what became of each."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from envelope.errors import ErrorCode
from envelope.events import GateVerdict, MergeStep
from envelope.gate import GateObjection
from envelope.messages import Attachment, PatchRef, TaskResult
from envelope.scope import allows
from envelope.tracing.names import COLLISIONS, MERGE, PATCHES
from envelope.tracing.spans import link_attempt, span
from repo.merge import Collision, Merged, merge_patches
from repo.merge_sides import Changeset
from repo.mirror import Mirror
from repo.predict import Forecast, predict
from transport.blobs.base import Blobs

from ..driver import Ended, completed
from ..globs import matching
from ..repositories import as_changeset, paths_of
from .merge_rules import MergeRules
from .report import DETAIL_CHARS, MAX_LISTED, CollisionReport, Outcome, OverlapReport, ShardReport

PATCH_TYPE = "text/x-diff"
MAX_STEP_PATHS = 50  # for people to look at; the report's patch lists them all


@dataclass(frozen=True, slots=True)
class Blame:
    """Why the gate fails with a patch, what it saw, and all that speaks against it."""

    reason: str
    hint: str
    verdict: GateVerdict | None
    objections: tuple[GateObjection, ...] = ()


@dataclass(frozen=True, slots=True)
class Objection:
    """Why a shard's patch must not be merged."""

    code: ErrorCode
    reason: str


@dataclass(frozen=True, slots=True)
class Resolution:
    """An agent's task that was to resolve a collision, what it cost, and why that came to nothing (if it did)."""

    task_id: str
    cost_microusd: int
    failure: str = ""


@dataclass(frozen=True, slots=True)
class MergeOutcome:
    """`kept`: the patches that did not land, so that they live as long as the report does."""

    commit: str
    shards: tuple[ShardReport, ...]
    collisions: tuple[CollisionReport, ...]
    overlaps: tuple[OverlapReport, ...]
    kept: tuple[Attachment, ...]

    @property
    def steps(self) -> list[MergeStep]:
        return steps_of(self.shards, self.collisions)


@dataclass(frozen=True, slots=True)
class Material:
    """What shards made, and the order in which the most of it can land: of all that nothing is objected to."""

    mirror: Mirror
    base: str
    endings: Mapping[str, Ended]
    objections: Mapping[str, Objection]
    patches: Mapping[str, Changeset]
    forecast: Forecast

    async def merge(self, *, without: Collection[str] = ()) -> Merged:
        """The same results give the same commit id, on any machine and day."""
        keys = [key for key in self.forecast.order if key not in without]
        with span(MERGE, {PATCHES: len(keys)}) as merging:
            for key in keys:
                result = self.endings[key].result
                link_attempt(result.task_id, result.attempt, result.trace_id)
            merged = await merge_patches(
                self.mirror, self.base, [self.patches[key] for key in keys], sides=self.forecast.sides
            )
            merging.set({COLLISIONS: len(merged.collisions)})
            return merged

    def outcome(
        self, name: str, merged: Merged, blamed: Mapping[str, Blame], resolutions: Mapping[str, Resolution]
    ) -> MergeOutcome:
        """`name`: the repository's."""
        reports = [
            _report(key, ended, self.objections.get(key), merged, blamed.get(key), resolutions.get(key))
            for key, ended in self.endings.items()
        ]
        collisions = [self._collision(collision, resolutions.get(collision.key)) for collision in merged.collisions]
        lost = (*blamed, *(collision.key for collision in merged.collisions), *self.objections)
        kept = {key: self._kept(name, number, key) for number, key in enumerate(lost)}
        named = [one.model_copy(update={"patch": kept[one.key].name if one.key in kept else ""}) for one in reports]
        overlaps = overlaps_in(self.forecast)
        return MergeOutcome(merged.commit, tuple(named), tuple(collisions), overlaps, tuple(kept.values()))

    def _kept(self, name: str, number: int, key: str) -> Attachment:
        patch = self.endings[key].result.patch
        assert patch is not None
        size_bytes = len(self.patches[key].diff)
        return Attachment(blob=patch.diff, name=f"{name}-{number}.patch", media_type=PATCH_TYPE, size_bytes=size_bytes)

    def _collision(self, collision: Collision, resolution: Resolution | None) -> CollisionReport:
        failure = ""
        if resolution and resolution.failure:
            told = "an agent tried" if resolution.task_id else "no agent was asked"
            failure = f"; {told}: {resolution.failure}"
        return CollisionReport(
            key=collision.key,
            with_keys=collision.other_keys,
            paths=collision.paths,
            detail=f"{collision.detail}{failure}"[:DETAIL_CHARS],
            task_id=self.endings[collision.key].result.task_id,
            with_tasks=tuple(self.endings[key].result.task_id for key in collision.other_keys),
        )


async def material_of(
    mirror: Mirror, blobs: Blobs, base: str, endings: Mapping[str, Ended], *, batch: str, rules: MergeRules
) -> Material:
    """What there is to merge of a repository: patches without an objection, and where they will meet."""
    ordered = dict(sorted(endings.items()))
    made = {key: patch for key, ended in ordered.items() if (patch := _patch_of(ended.result)) is not None}
    found = {key: _objection(patch, ordered[key], base) for key, patch in made.items()}
    objections = {key: objection for key, objection in found.items() if objection is not None}
    patches = {
        key: await as_changeset(blobs, key, f"{batch}: {key}", patch, ordered[key].work.request.auth_scope)
        for key, patch in made.items()
    }
    places = {glob: set(matching(glob, patches)) for glob in rules.first}

    def rank(key: str) -> int:
        return next((number for number, keys in enumerate(places.values()) if key in keys), len(places))

    forecast = await predict(mirror, base, [patches[key] for key in patches if key not in objections], rank=rank)
    return Material(mirror, base, ordered, objections, patches, forecast)


def _patch_of(result: TaskResult) -> PatchRef | None:
    return result.patch if completed(result) and result.patch is not None and result.patch.files else None


def _objection(patch: PatchRef, ended: Ended, base: str) -> Objection | None:
    """A worker has checked this, too."""
    if patch.base != base:
        reason = f"the patch is against {patch.base[:12]}, not against {base[:12]}"
        return Objection(ErrorCode.REPOSITORY, reason)
    scope = ended.work.request.auth_scope
    outside = [path for path in paths_of(patch) if not allows(scope, "edit", path)]
    if not outside:
        return None
    return Objection(ErrorCode.OUT_OF_SCOPE, f"the patch changes {outside[0]}, which is not in the shard's scope")


def _report(
    key: str,
    ended: Ended,
    objection: Objection | None,
    merged: Merged,
    blame: Blame | None,
    resolution: Resolution | None,
) -> ShardReport:
    result, patch = ended.result, ended.result.patch
    collision = next((collision for collision in merged.collisions if collision.key == key), None)
    landed = next((one for one in merged.landed if one.key == key), None)
    error = result.errors[0] if result.errors else None
    hint = "" if objection else error.hint if error else blame.hint if blame else ""
    code = error.code if error else objection.code if objection else ErrorCode.GATE_FAILED if blame else ""
    detail = objection.reason if objection else error.message if error else blame.reason if blame else ""
    return ShardReport(
        key=key,
        outcome=_outcome(ended, objection, collision, blame),
        task_id=result.task_id,
        trace_id=result.trace_id,
        reused=ended.reused,
        files=len(patch.files) if patch else 0,
        added=patch.added if patch else 0,
        removed=patch.removed if patch else 0,
        cost_microusd=ended.cost_microusd + (resolution.cost_microusd if resolution else 0),
        code=code,
        detail=(detail or (collision.detail if collision else ""))[:DETAIL_CHARS],
        hint=hint[:DETAIL_CHARS],
        merged_by=landed.level if landed and _patch_of(result) else "",
        resolved_by=resolution.task_id if resolution and landed and landed.level == "resolved" else "",
        evidence=blame.verdict if blame else None,
        objections=blame.objections if blame else (),
    )


def _outcome(ended: Ended, objection: Objection | None, collision: Collision | None, blame: Blame | None) -> Outcome:
    if not completed(ended.result):
        return "failed"
    if objection or blame:
        return "set_aside"
    if collision is not None:
        return "collision"
    return "applied" if _patch_of(ended.result) else "empty"


def overlaps_in(forecast: Forecast) -> tuple[OverlapReport, ...]:
    """Those in conflict first, as far as a report has room."""
    ordered = sorted(forecast.meetings, key=lambda meeting: not meeting.conflicts)[:MAX_LISTED]
    return tuple(
        OverlapReport(
            keys=(meeting.overlap.first, meeting.overlap.second),
            paths=meeting.overlap.paths[:MAX_STEP_PATHS],
            conflicts=meeting.conflicts[:MAX_STEP_PATHS],
        )
        for meeting in ordered
    )


def steps_of(shards: Sequence[ShardReport], collisions: Sequence[CollisionReport]) -> list[MergeStep]:
    collided = {collision.key: collision for collision in collisions}
    return [_step(shard, collided.get(shard.key)) for shard in shards if shard.outcome != "failed"]


def _step(shard: ShardReport, collision: CollisionReport | None) -> MergeStep:
    assert shard.outcome != "failed"
    return MergeStep(
        key=shard.key,
        outcome=shard.outcome,
        paths=collision.paths[:MAX_STEP_PATHS] if collision else (),
        with_keys=collision.with_keys[:MAX_STEP_PATHS] if collision else (),
        detail=shard.detail,
    )
