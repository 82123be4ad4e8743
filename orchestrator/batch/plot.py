"""One repository of a batch, from its shards to a verdict. What goes wrong here is told, and stops no other one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from envelope.budget import Budget
from envelope.errors import ErrorCode
from envelope.messages import Attachment, ErrorInfo, PatchRef, Workspace
from repo.errors import RepoError
from repo.mirror import Mirror

from ..driver import Driver, Ended, Work
from ..errors import TaskFailed
from ..gate import Gate, Judgement, Run, judge, read_run
from ..repositories import attach_bundle, change_between, tree_of
from ..submit import VERIFY, RepositoryInput
from .landing import Landing, land
from .report import RepositoryReport
from .shards import Piece, shard_request
from .spec import BatchSpec


@dataclass(frozen=True, slots=True)
class Plot:
    given: RepositoryInput
    mirror: Mirror
    pieces: list[Piece]


@dataclass(frozen=True, slots=True)
class Settled:
    """The first error is the gravest."""

    report: RepositoryReport
    bundle: Attachment | None = None
    errors: tuple[ErrorInfo, ...] = ()


async def settle(driver: Driver, spec: BatchSpec, plot: Plot, share: Budget) -> Settled:
    """Shards and the gate on the base side by side, then the merge, then the gate on what it made."""
    gate = _gate(driver, spec, plot)
    try:
        endings, before = await _do_shards(driver, spec, plot, share, gate)
        return await _prove(driver, spec, plot, gate, endings, before)
    except TaskFailed as e:
        return _stuck(plot, e.error)
    except RepoError as e:
        return _stuck(plot, ErrorInfo.of(ErrorCode.REPOSITORY, f"{plot.given.name}: {e}", e.hint))


def _gate(driver: Driver, spec: BatchSpec, plot: Plot) -> Gate | None:
    given = plot.given
    workspace = Workspace(bundle=given.bundle, base=given.base, setup=spec.setup.commands)
    return Gate(driver.request, spec.gate.commands, workspace, given.name) if spec.gate else None


def _stuck(plot: Plot, error: ErrorInfo) -> Settled:
    given = plot.given
    report = RepositoryReport(
        name=given.name, base=given.base, commit=given.base, reason=error.message, hint=error.hint
    )
    return Settled(report, errors=(error,))


async def _do_shards(
    driver: Driver, spec: BatchSpec, plot: Plot, share: Budget, gate: Gate | None
) -> tuple[dict[str, Ended], Run | None]:
    deadline_ms = min(driver.remaining_ms, spec.limits.shard_deadline_ms(driver.remaining_ms))
    works: list[Work] = []
    for piece in plot.pieces:
        request = shard_request(piece, spec, plot.given, driver=driver.request, budget=share, deadline_ms=deadline_ms)
        works.append(Work(piece.key, request, piece.key))
    if gate is not None:
        works.append(gate.before(deadline_ms=driver.remaining_ms))
    endings: dict[str, Ended] = {}
    before: Run | None = None
    async for ended in driver.run(works):
        if ended.work.request.agent == VERIFY:
            before = read_run(ended.result)
            await driver.report(before.verdict("before"))
        else:
            endings[ended.work.key] = ended
    return endings, before


async def _prove(
    driver: Driver, spec: BatchSpec, plot: Plot, gate: Gate | None, endings: Mapping[str, Ended], before: Run | None
) -> Settled:
    given, mirror, blobs = plot.given, plot.mirror, driver.transport.blobs
    landing = await land(mirror, blobs, given.base, endings, batch=spec.name)
    await driver.report(*landing.steps)
    for step in landing.steps:
        driver.office.metrics.count_merge(step)
    changed = landing.commit != given.base
    patch = (await change_between(mirror, blobs, given.base, landing.commit)).patch if changed else None
    bundle = await attach_bundle(mirror, blobs, landing.commit, f"{given.name}.bundle") if changed else None
    after = await _run_again(driver, gate, patch) if patch else before
    judgement = Judgement(False, "no gate is configured")
    if spec.gate is not None and before is not None and after is not None:
        tree = await tree_of(mirror, landing.commit)
        judgement = judge(before, after, tree=tree, min_tests=spec.gate.min_tests)
        driver.office.metrics.count_verdict(verified=judgement.verified)
    report = _report(plot, landing, patch, bundle, judgement, before, after)
    gate_failed = gate is not None and changed and not judgement.verified
    return Settled(report, bundle, (*_gate_errors(report, gate_failed), *_shard_errors(report)))


async def _run_again(driver: Driver, gate: Gate | None, patch: PatchRef) -> Run | None:
    after: Run | None = None
    works = [gate.after(patch.diff, deadline_ms=driver.remaining_ms)] if gate else []
    async for ended in driver.run(works):
        after = read_run(ended.result)
        await driver.report(after.verdict("after"))
    return after


def _report(
    plot: Plot,
    landing: Landing,
    patch: PatchRef | None,
    bundle: Attachment | None,
    judgement: Judgement,
    before: Run | None,
    after: Run | None,
) -> RepositoryReport:
    return RepositoryReport.of(
        landing.shards,
        name=plot.given.name,
        base=plot.given.base,
        commit=landing.commit,
        bundle=bundle.name if bundle else "",
        patch=patch,
        verified=judgement.verified,
        reason=judgement.reason,
        hint=judgement.hint,
        before=before.verdict("before") if before else None,
        after=after.verdict("after") if after else None,
        collisions=landing.collisions,
    )


def _gate_errors(report: RepositoryReport, failed: bool) -> list[ErrorInfo]:
    if not failed:
        return []
    return [ErrorInfo.of(ErrorCode.GATE_FAILED, f"{report.name}: {report.reason}", report.hint)]


def _shard_errors(report: RepositoryReport) -> list[ErrorInfo]:
    """Collisions, then shards without an acceptable patch; if no shard has one, the first one's own error."""
    errors: list[ErrorInfo] = []
    if report.collisions:
        first, counts = report.collisions[0], f"{len(report.collisions)} of {len(report.shards)}"
        where = f"{first.key} with {', '.join(first.with_keys) or 'the base'} in {', '.join(first.paths)}"
        message = f"{report.name}: {counts} patches collide with earlier ones; {where}"
        errors.append(ErrorInfo.of(ErrorCode.COLLISION, message, "run the batch again on top of what landed"))
    lost = [shard for shard in report.shards if shard.outcome in ("failed", "set_aside")]
    if lost:
        alone = len(lost) == len(report.shards)
        code = ErrorCode(lost[0].code or ErrorCode.INTERNAL) if alone else ErrorCode.PARTIAL
        message = f"{report.name}: {len(lost)} of {len(report.shards)} shards failed; {lost[0].key}: {lost[0].detail}"
        errors.append(ErrorInfo.of(code, message, f"see the first one: muster task show {lost[0].task_id}"))
    return errors
