"""`muster batch overlaps`: which patches meet, while a batch is at work and after it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping

from envelope.messages import TaskResult
from repo.temporary import temporary_folder

from ..batch.merge_overlaps import foreseen
from ..batch.report import REPORT_NAME, BatchReport, OverlapReport
from ..client import Muster
from ..errors import BadInput
from ..settings import load_settings
from ..submit import BATCH
from .console import data, note
from .find import find_task
from .fleet import open_records
from .options import JsonLines, TaskId
from .show import report_of

Found = Mapping[str, tuple[OverlapReport, ...]]


def overlaps(task: TaskId, as_json: JsonLines = False) -> None:
    """Show which of a batch's patches change the same files, and which of these git cannot merge by lines."""
    found = asyncio.run(_overlaps(task))
    for name, each in found.items():
        if not each and not as_json:
            note(f"{name}: no two patches change the same file")
        for overlap in each:
            if as_json:
                data(json.dumps({"repository": name, **overlap.model_dump(mode="json")}))
            else:
                note(f"{name}: {_line(overlap)}")


def _line(overlap: OverlapReport) -> str:
    where = f"conflict by lines in {', '.join(overlap.conflicts)}" if overlap.conflicts else "merge by lines"
    return f"{overlap.keys[0]} with {overlap.keys[1]}: {where}"


async def _overlaps(words: str) -> Found:
    async with open_records(load_settings()) as muster:
        record = await find_task(muster, words)
        if record.agent != BATCH:
            raise BadInput(f"the task {record.task_id} is no batch", hint=f"muster task show {record.task_id}")
        result = await muster.result(record.task_id)
        if result is not None and report_of(result) is not None:
            return await _reported(muster, result)
        with temporary_folder("overlaps") as folder:
            return await foreseen(muster, await muster.request(record.task_id), folder)


async def _reported(muster: Muster, result: TaskResult) -> Found:
    report = BatchReport.model_validate_json(await muster.attachment(result, REPORT_NAME))
    return {one.name: one.overlaps for one in report.repositories}
