"""One repository of a batch, from its shards to a verdict. What goes wrong here is reported, and stops no other one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from envelope.errors import ErrorCode
from envelope.messages import Attachment, ErrorInfo, PatchRef, Workspace
from repo.errors import RepoError
from repo.mirror import Mirror

from ..driver import Driver, Ended
from ..gate import Gate
from ..repositories import attach_bundle
from ..submit import RepositoryInput
from ..trial import Proof
from .asked import asked_for
from .chain import Chains
from .concluded import RepositoryOutcome
from .fund import Fund
from .merge import MergeOutcome, material_of
from .merge_proof import Trials, prove_merge
from .merge_resolve import Resolver
from .report import RepositoryReport
from .shards import Shard
from .spec import BatchSpec
from .turns import Turn


@dataclass(frozen=True, slots=True)
class RepositoryRun:
    given: RepositoryInput
    mirror: Mirror
    shards: list[Shard]
    turn: Turn  # to merge

    @property
    def keys(self) -> tuple[str, ...]:
        return tuple(shard.key for shard in self.shards)


async def run_repository(driver: Driver, spec: BatchSpec, run: RepositoryRun, fund: Fund) -> RepositoryOutcome:
    """The gate on the base and the shards, then the merge, then the gate on what it made."""
    gate = _gate(driver, spec, run)
    try:
        chains = Chains(driver, spec, run.given, run.mirror, fund, gate)
        endings = await chains.run(run.shards)
        if chains.refusal is not None:
            return _refused(run, chains.refusal)
        trials = Trials(
            run.mirror, driver.transport.blobs, run.given.base, spec.merge, gate, chains.before, chains.failure
        )
        async with run.turn.held():
            return await _conclude(driver, spec, run, trials, endings, fund)
    except RepoError as e:
        return _stuck(run, ErrorInfo.of(ErrorCode.REPOSITORY, f"{run.given.name}: {e}", e.hint))


def _gate(driver: Driver, spec: BatchSpec, run: RepositoryRun) -> Gate | None:
    if spec.gate is None:
        return None
    workspace = Workspace(bundle=run.given.bundle, base=run.given.base, setup=spec.setup.commands)
    scope = asked_for(spec.shards, run.shards, tests=spec.gate.tests)
    rules = spec.gate
    return Gate(driver, rules.commands, workspace, rules.min_tests, run.given.name, rules, scope, away=run.turn.away)


def _stuck(run: RepositoryRun, error: ErrorInfo) -> RepositoryOutcome:
    """What went wrong on this machine may go well on the next."""
    given = run.given
    report = RepositoryReport(
        name=given.name, base=given.base, commit=given.base, reason=error.message, hint=error.hint
    )
    return RepositoryOutcome(report=report, keys=run.keys, errors=(error,), final=False)


def _refused(run: RepositoryRun, proof: Proof) -> RepositoryOutcome:
    """Its shards would have been paid for, and nothing of them could be proved."""
    given, said = run.given, proof.judgement
    report = RepositoryReport(
        name=given.name,
        base=given.base,
        commit=given.base,
        reason=said.reason,
        hint=said.hint,
        before=proof.before,
        evidence=proof.evidence,
    )
    return RepositoryOutcome(report=report, keys=run.keys, errors=(_gate_error(report, proof),))


async def _conclude(
    driver: Driver,
    spec: BatchSpec,
    run: RepositoryRun,
    trials: Trials,
    endings: Mapping[str, Ended],
    fund: Fund,
) -> RepositoryOutcome:
    given, mirror, blobs = run.given, run.mirror, driver.transport.blobs
    metrics = driver.context.metrics
    with metrics.timed("merge_seconds", trace_id=driver.request.trace_id):
        material = await material_of(mirror, blobs, given.base, endings, batch=spec.name, rules=spec.merge)
        resolver = Resolver(driver, spec, given, material, fund, run.turn)
        proved = await prove_merge(trials, resolver.merge)
    merged = material.outcome(given.name, proved.merged, proved.blamed, resolver.resolutions)
    await driver.report(*merged.steps)
    for step in merged.steps:
        metrics.count_merge(step)
    for resolution in resolver.resolutions.values():
        metrics.count_resolution(failed=bool(resolution.failure))
    patch, proof = proved.patch, proved.proof
    bundle = await attach_bundle(mirror, blobs, merged.commit, f"{given.name}.bundle") if patch else None
    report = _report(run, merged, patch, bundle, proof)
    errors = _shard_errors(report)
    is_rejected = patch is not None and (proof.evidence.result == "rejected" or proof.failure is not None)
    if is_rejected or (proof.failure and not errors):
        errors = [_gate_error(report, proof), *errors]
    return RepositoryOutcome(report=report, keys=run.keys, bundle=bundle, errors=tuple(errors), kept=merged.kept)


def _report(
    run: RepositoryRun, merged: MergeOutcome, patch: PatchRef | None, bundle: Attachment | None, proof: Proof
) -> RepositoryReport:
    return RepositoryReport.of(
        merged.shards,
        name=run.given.name,
        base=run.given.base,
        commit=merged.commit,
        bundle=bundle.name if bundle else "",
        patch=patch,
        verified=proof.judgement.verified,
        reason=proof.judgement.reason,
        hint=proof.judgement.hint,
        before=proof.before,
        after=proof.after,
        evidence=proof.evidence,
        collisions=merged.collisions,
        overlaps=merged.overlaps,
    )


def _gate_error(report: RepositoryReport, proof: Proof) -> ErrorInfo:
    """A gate that could not be run has not failed."""
    code = proof.failure.code if proof.failure else ErrorCode.GATE_FAILED
    return ErrorInfo.of(code, f"{report.name}: {report.reason}", report.hint)


def _shard_errors(report: RepositoryReport) -> list[ErrorInfo]:
    """Collisions, then shards without an acceptable patch; if no shard has one, the first one's own error."""
    errors: list[ErrorInfo] = []
    if report.collisions:
        first, counts = report.collisions[0], f"{len(report.collisions)} of {len(report.shards)}"
        where = f"{first.key} with {', '.join(first.with_keys) or 'the base'} in {', '.join(first.paths)}"
        message = f"{report.name}: {counts} patches collide with earlier ones; {where}"
        errors.append(
            ErrorInfo.of(
                ErrorCode.COLLISION, message, "run the batch again on top of what landed, or see: muster batch report"
            )
        )
    lost = [shard for shard in report.shards if shard.outcome in ("failed", "set_aside")]
    if lost:
        alone = len(lost) == len(report.shards)
        code = ErrorCode(lost[0].code or ErrorCode.INTERNAL) if alone else ErrorCode.PARTIAL
        message = f"{report.name}: {len(lost)} of {len(report.shards)} shards failed; {lost[0].key}: {lost[0].detail}"
        hint = lost[0].hint or f"see the first one: muster task show {lost[0].task_id}"
        errors.append(ErrorInfo.of(code, message, hint))
    return errors
