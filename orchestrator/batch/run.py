"""The driver of one batch: shards side by side, and each repository settled as soon as its own have ended."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from envelope.budget import Budget
from envelope.messages import Attachment, Output, TaskResult

from ..driver import Driver, ended_with
from ..repositories import fetch_mirror, files_at
from ..submit import BatchParams
from .plot import Plot, Settled, settle
from .report import REPORT_NAME, BatchReport
from .shards import pieces_of
from .spec import BatchSpec


async def drive_batch(driver: Driver) -> TaskResult:
    """Everything that is submitted has a content key, so that this can be killed anywhere and run again."""
    params = BatchParams.model_validate(driver.request.input.params)
    spec = params.spec
    plots = await _survey(driver, params)
    share = _share(driver, spec, sum(len(plot.pieces) for plot in plots))
    settled = await _settle_all(driver, spec, plots, share)
    branch = spec.publish.branch if spec.publish else ""
    reports = tuple(one.report for one in settled)
    report = BatchReport(name=spec.name, branch=branch, repositories=reports)
    return ended_with(
        driver,
        *(error for one in settled for error in one.errors),
        output=Output(text=report.text(), structured=report.abridged().as_json()),
        patch=next((one.patch for one in reports if one.patch is not None), None),
        attachments=(*(one.bundle for one in settled if one.bundle), await _attach_report(driver, report)),
    )


async def _survey(driver: Driver, params: BatchParams) -> list[Plot]:
    spec, blobs = params.spec, driver.transport.blobs
    plots: list[Plot] = []
    left = spec.limits.max_shards
    for given in params.repositories:
        mirror = await fetch_mirror(blobs, driver.office.cache_dir, bundle_ref=given.bundle, base=given.base)
        pieces = pieces_of(await files_at(mirror, given.base), spec.shards, max_shards=left, name=given.name)
        left -= len(pieces)
        plots.append(Plot(given, mirror, pieces))
    return plots


def _share(driver: Driver, spec: BatchSpec, count: int) -> Budget:
    """Equal parts, so that all together cannot spend more than the batch may. Recipes call no model."""
    cap = driver.request.budget.max_cost_microusd
    if cap is None or spec.steps[0].agent is None:
        return Budget()
    return Budget(max_cost_microusd=cap // max(1, count))


async def _settle_all(driver: Driver, spec: BatchSpec, plots: Sequence[Plot], share: Budget) -> list[Settled]:
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(settle(driver, spec, plot, share)) for plot in plots]
    except BaseExceptionGroup as failures:
        raise failures.exceptions[0] from failures
    return [task.result() for task in tasks]


async def _attach_report(driver: Driver, report: BatchReport) -> Attachment:
    content = report.model_dump_json(indent=1).encode()
    blob = await driver.transport.blobs.put(content)
    return Attachment(blob=blob, name=REPORT_NAME, media_type="application/json", size_bytes=len(content))
