"""The driver of one batch: shards side by side, and each repository concluded as soon as its own have ended."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence

from envelope.messages import Attachment, Output, TaskResult

from ..driver import Driver, ended_with
from ..looking import is_read_only
from ..raises import sharing_raises
from ..submit import params_of
from .chain import seat_of
from .chosen import found_in
from .concluded import Concluded, RepositoryOutcome
from .fund import Fund
from .looking import require_looking
from .report import REPORT_NAME, BatchReport
from .repository_run import RepositoryRun, run_repository
from .request import BatchParams
from .shards import refuse_empty
from .spec import BatchSpec
from .survey import survey
from .turns import Turn, Turns

# Patches that did not land, as attachments of the result: a line of 170 bytes for each in a message of 1 MiB, of which
# the report has half. All of a batch of the usual size; the tasks of the others have theirs.
MAX_KEPT = 1_000
# Repositories that are merged at once: git, one command after the other, keeps a core busy for each.
AT_ONCE = max(2, os.cpu_count() or 1)


async def drive_batch(driver: Driver) -> TaskResult:
    """Everything that is submitted has a content key, so that this can be killed anywhere and run again."""
    params = params_of(BatchParams, driver.request)
    spec = params.spec
    if is_read_only(driver.request.auth_scope):
        require_looking(spec)
    concluded = await Concluded.of(driver)
    runs = await _survey(driver, params, concluded)
    seats = [seat_of(run.given, shard) for run in runs for shard in run.shards]
    done = sum(len(outcome.keys) for outcome in concluded.known.values())
    fund = Fund.of(driver, seats, concluded=done, asks_a_model=spec.asks_a_model)
    async with sharing_raises(driver, fund.share_raised):
        made = concluded.known | await _run_all(driver, spec, runs, fund, concluded)
    outcomes = [made[given.name] for given in params.repositories if given.name in made]
    branch = spec.publish.branch if spec.publish else ""
    kept = [patch for one in outcomes for patch in one.kept][:MAX_KEPT]
    reports = tuple(one.report for one in outcomes)
    report = BatchReport(name=spec.name, branch=branch, repositories=reports)
    return ended_with(
        driver,
        *(error for one in outcomes for error in one.errors),
        output=Output(text=report.text(), structured=report.abridged().as_json()),
        patch=next((one.patch for one in reports if one.patch is not None), None),
        attachments=(*(one.bundle for one in outcomes if one.bundle), *kept, await _attach_report(driver, report)),
    )


async def _survey(driver: Driver, params: BatchParams, concluded: Concluded) -> list[RepositoryRun]:
    """Of the repositories that are not concluded."""
    spec = params.spec
    runs: list[RepositoryRun] = []
    turns = Turns(AT_ONCE)
    keys = {key for outcome in concluded.known.values() for key in outcome.keys}
    left = spec.limits.max_shards - sum(len(outcome.keys) for outcome in concluded.known.values())
    for number, given in enumerate(params.repositories):
        if given.name in concluded.known:
            continue
        mirror = await driver.mirror(given.bundle, given.base)
        found = await found_in(driver, params, given, mirror)
        shards = await survey(
            spec, name=given.name, git_dir=mirror.git_dir, base=given.base, max_shards=left, found=found
        )
        left -= len(shards)
        runs.append(RepositoryRun(given, mirror, shards, Turn(turns, number)))
    refuse_empty(spec.shards, keys.union(*(run.keys for run in runs)))
    return [run for run in runs if run.shards]  # a query may find nothing in some of many


async def _run_all(
    driver: Driver, spec: BatchSpec, runs: Sequence[RepositoryRun], fund: Fund, concluded: Concluded
) -> dict[str, RepositoryOutcome]:
    async def concluding(run: RepositoryRun) -> RepositoryOutcome:
        outcome = await run_repository(driver, spec, run, fund)
        if outcome.final:
            await concluded.keep(outcome)
        return outcome

    try:
        async with asyncio.TaskGroup() as group:
            tasks = {run.given.name: group.create_task(concluding(run)) for run in runs}
    except BaseExceptionGroup as failures:
        raise failures.exceptions[0] from failures
    return {name: task.result() for name, task in tasks.items()}


async def _attach_report(driver: Driver, report: BatchReport) -> Attachment:
    content = report.model_dump_json(indent=1).encode()
    blob = await driver.transport.blobs.put(content)
    return Attachment(blob=blob, name=REPORT_NAME, media_type="application/json", size_bytes=len(content))
