"""`muster batch diff`, `status` and `cancel`: a batch that was run before, or runs now."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from pathlib import Path

from envelope.lifecycle import TERMINAL, State
from repo.errors import RepoError
from transport.base import TaskRecord
from transport.errors import NotFound

from ..batch.difference import Difference, difference, works_of
from ..batch.file import load_batch
from ..batch.preview import all_shards
from ..batch.request import BatchParams
from ..batch.starts import Start
from ..client import Muster
from ..errors import BadInput
from ..settings import Settings, load_settings
from ..submit import BATCH, params_of
from .batch_file import BatchFile
from .batch_plan import Planned, planned, undone_by
from .console import data, note
from .find import find_task
from .fleet import open_fleet, open_records
from .options import Json, TaskId
from .person import person
from .places import latest_of
from .summary import Line, print_lines
from .units import dollars

MAX_LISTED = 10  # of each kind, for people; --json has them all
STATES = {State.PENDING: "in line", State.RUNNING: "running", State.WAITING: "waiting", State.COMPLETED: "done"}


def diff(file: BatchFile, as_json: Json = False) -> None:
    """Show what FILE would do that its last run has not done: how the file changed, and which shards are affected."""
    found = asyncio.run(_diff(file))
    if as_json:
        data(found.model_dump_json())
        return
    for line in found.spec:
        data(line)
    print_lines(_lines(found))


def status(task: TaskId, as_json: Json = False) -> None:
    """Show how far a batch is: its shards by state, and what they have cost. Waits for nothing."""
    asyncio.run(_status(task, as_json))


def cancel(task: TaskId) -> None:
    """Stop a batch and all its shards. What they did is kept: `muster batch resume` goes on with it."""
    asyncio.run(_cancel(task))


async def difference_to(muster: Muster, now: Planned, earlier: str) -> Difference:
    """By the files as they were at the last run's commits, which are looked for where the repositories are now."""
    params = params_of(BatchParams, await muster.request(earlier))
    before: dict[str, str] = {}
    for given in params.repositories:
        if start := now.starts.get(given.name):
            before |= await _works_then(params, Start(start.git_dir, given.base, None), given.name)
    after: dict[str, str] = {}
    for name, shards in (await all_shards(now.spec, now.starts, found=now.found)).items():
        after |= works_of(shards, now.spec, name=name)
    return difference(before, after, specs=(params.spec, now.spec), earlier=earlier)


async def _works_then(params: BatchParams, start: Start, name: str) -> dict[str, str]:
    if params.spec.shards.command is not None:
        return {}
    try:
        found = await all_shards(params.spec, {name: start}, found=params.found)
    except (RepoError, BadInput):
        return {}  # a commit that was thrown away since: nothing is known of it, and all counts as new
    return works_of(found[name], params.spec, name=name)


async def _diff(file: Path) -> Difference:
    settings = load_settings()
    spec = load_batch(file)
    if spec.shards.command is not None:
        hint = "see what has changed since by running it: what is done is not done again"
        raise BadInput(f"{file} tells its shards by a command, which only a run may start", hint=hint)
    now = await planned(spec, file, settings, allow_dirty=True)
    async with open_records(settings) as muster:
        if spec.shards.failures_of is not None:
            now = Planned(file, spec, now.starts, await undone_by(muster, spec.shards.failures_of))
        return await difference_to(muster, now, await _earlier(muster, settings, file))


async def _earlier(muster: Muster, settings: Settings, file: Path) -> str:
    task_id = latest_of(settings, file)
    try:
        if task_id is not None:
            await muster.record(task_id)
            return task_id
    except NotFound as e:
        hint = "see what it would do with: muster batch preview FILE"
        raise BadInput(f"the last run of {file} is no longer kept", hint=hint) from e
    raise BadInput(f"{file} was never run here", hint="see what it would do with: muster batch preview FILE")


def _lines(found: Difference) -> list[Line]:
    lines: list[Line] = [("since", found.earlier), ("shards", found.counts)]
    for word in ("new", "changed", "gone"):
        keys: tuple[str, ...] = getattr(found, word)
        lines += [(word if index == 0 else "", key) for index, key in enumerate(keys[:MAX_LISTED])]
        if (more := len(keys) - MAX_LISTED) > 0:
            lines.append(("", f"… {more} more"))
    return lines


async def _status(words: str, as_json: bool) -> None:
    async with open_records(load_settings()) as muster:
        record = await batch_named(muster, words)
        session = await muster.tree(record.trace_id)
    children = [session.tasks[child] for child in session.root_task.children]
    counts = Counter(STATES.get(child.state, str(child.state)) for child in children)
    if as_json:
        data(json.dumps({"task_id": record.task_id, "state": record.state, "tasks": counts}))
        return
    told = ", ".join(f"{count} {state}" for state, count in counts.most_common()) or "none yet"
    lines = [("batch", f"{record.intent}: {record.state}"), ("tasks", told), ("cost", dollars(session.cost_microusd))]
    lines += [("failed", f"{child.title}: {child.error}") for child in children if child.error][:MAX_LISTED]
    print_lines(lines)


async def batch_named(muster: Muster, words: str) -> TaskRecord:
    record = await find_task(muster, words)
    if record.agent != BATCH:
        raise BadInput(f"the task {record.task_id} is no batch", hint="see them with: muster batch list")
    return record


async def _cancel(words: str) -> None:
    async with open_fleet(load_settings()) as muster:
        record = await batch_named(muster, words)
        if record.state in TERMINAL:
            hint = f"see what came of it: muster batch show {record.task_id}"
            raise BadInput(f"the batch {record.task_id} has ended already: {record.state}", hint=hint)
        count = await muster.cancel(record.task_id, "asked for", by=person())
        note(f"{count} task(s) cancelled; go on with: muster batch resume {record.task_id}")
