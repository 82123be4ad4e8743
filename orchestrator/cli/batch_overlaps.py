"""`muster batch overlaps`: which patches meet, while a batch is at work and after it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping

from ..batch.report import OverlapReport
from ..settings import load_settings
from .console import data, note
from .find import find_task
from .fleet import open_records
from .options import JsonLines, TaskId


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


async def _overlaps(words: str) -> Mapping[str, tuple[OverlapReport, ...]]:
    async with open_records(load_settings()) as muster:
        return await muster.batches.overlaps((await find_task(muster, words)).task_id)
