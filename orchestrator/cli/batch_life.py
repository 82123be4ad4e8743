"""`muster batch diff`, `status` and `cancel`: a batch that was run before, or runs now."""

from __future__ import annotations

import asyncio
from pathlib import Path

from envelope.lifecycle import TERMINAL
from transport.base import TaskRecord

from ..batch.client import require_known_shards
from ..batch.difference import Difference
from ..client import Muster
from ..errors import BadInput
from ..settings import load_settings
from ..units import dollars
from .batch_file import BatchFile, known_run, plan_here, with_undone
from .console import data, note
from .find import find_task
from .fleet import open_records
from .known import following
from .options import OneJson, TaskId
from .person import person
from .places import latest_of
from .summary import Line, print_lines

MAX_LISTED = 10  # of each kind, for people; --json has them all


def diff(file: BatchFile, as_json: OneJson = False) -> None:
    """Show what FILE would do that its last run has not done: how the file changed, and which shards are affected."""
    found = asyncio.run(_diff(file))
    if as_json:
        data(found.model_dump_json())
        return
    for line in found.spec:
        data(line)
    print_lines([("since", found.earlier), ("shards", found.counts), *difference_lines(found)])


def status(task: TaskId, as_json: OneJson = False) -> None:
    """Show how far a batch is: its shards by state, and what they have cost. Waits for nothing."""
    asyncio.run(_status(task, as_json))


def cancel(task: TaskId) -> None:
    """Stop a batch and all its shards. What they did is kept: `muster batch resume` goes on with it."""
    asyncio.run(_cancel(task))


async def _diff(file: Path) -> Difference:
    settings = load_settings()
    now = await plan_here(file, settings, allow_dirty=True)
    require_known_shards(now.spec, file)
    async with open_records(settings) as muster:
        now = await with_undone(muster, now)
        if (earlier := await known_run(muster, file)) is not None:
            return await muster.batches.difference(now, earlier)
    told = "was never run here" if latest_of(settings, file) is None else "was run here, but that is no longer kept"
    raise BadInput(f"{file} {told}", hint="see what it would do with: muster batch preview FILE")


def difference_lines(found: Difference) -> list[Line]:
    lines: list[Line] = []
    repeated = [f"{key}: {why.splitlines()[0]}" for key, why in found.repeated.items()]
    for word, told in (("new", found.new), ("changed", found.changed), ("repeated", repeated), ("gone", found.gone)):
        lines += [(word if index == 0 else "", key) for index, key in enumerate(told[:MAX_LISTED])]
        if (more := len(told) - MAX_LISTED) > 0:
            lines.append(("", f"… {more} more"))
    return lines


async def _status(words: str, as_json: bool) -> None:
    async with open_records(load_settings()) as muster:
        found = await muster.batches.status((await batch_named(muster, words)).task_id)
    if as_json:
        data(found.model_dump_json(include={"task_id", "state", "shards", "tasks", "cost_microusd"}))
        return
    told = [", ".join(f"{count} {word}" for word, count in counts.items()) for counts in (found.shards, found.tasks)]
    shards, tasks = (words or "none yet" for words in told)
    lines = [("batch", f"{found.name}: {found.state}"), ("shards", shards), ("tasks", tasks)]
    lines.append(("cost", dollars(found.cost_microusd)))
    lines += [("failed", f"{each.title}: {each.error}") for each in found.failed][:MAX_LISTED]
    print_lines(lines)


async def batch_named(muster: Muster, words: str) -> TaskRecord:
    return await muster.batches.record((await find_task(muster, words)).task_id)


async def _cancel(words: str) -> None:
    async with following(load_settings(), words) as (muster, record):
        await muster.batches.record(record.task_id)  # or it is no batch
        if record.state in TERMINAL:
            hint = f"see what came of it: muster batch show {record.task_id}"
            raise BadInput(f"the batch {record.task_id} has ended already: {record.state}", hint=hint)
        count = await muster.cancel(record.task_id, "asked for", by=person())
        note(f"{count} task(s) cancelled; go on with: muster batch resume {record.task_id}")
