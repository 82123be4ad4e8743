"""A task by what a person types of its id."""

from __future__ import annotations

import asyncio

from pydantic import TypeAdapter, ValidationError

from envelope.ids import TaskId
from transport.base import TaskRecord

from ..client import Muster
from ..errors import BadInput
from ..pages import records_of
from .options import task_words

# An abbreviation is looked for among the latest MAX_ROOTS roots, and the tasks of MAX_TRACES traces, live ones first. A
# whole id finds every task.
MAX_ROOTS = 20_000
MAX_TRACES = 1_000
MAX_TASKS = 10_000  # of a trace
TRACES_AT_ONCE = 20
PAGE = 1_000
# An end of an id that names one task among all that a fleet keeps.
UNIQUE = 8


async def find_task(muster: Muster, words: str) -> TaskRecord:
    """The task with this id, or with this end of its id. `NotFound` and `BadInput` say why there is none."""
    try:
        return await muster.record(TypeAdapter[str](TaskId).validate_python(words))
    except ValidationError:
        return await _by_end(muster, words)


async def _by_end(muster: Muster, words: str) -> TaskRecord:
    task_words(words)
    found, roots = await _among_roots(muster, words)
    if not found:
        found = await _below(muster, roots, words)
    if len(found) != 1:
        what = f"{len(found)} tasks end" if found else "no task ends"
        cut = (
            "" if found or len(roots) <= MAX_TRACES else f", of the latest {len(roots):,} roots and what is below some"
        )
        hint = "see the ids with: muster task list --limit 1000" + ("; a whole id finds every task" if cut else "")
        raise BadInput(f"{what} in {words!r}{cut}", hint=hint)
    return found[0]


async def _among_roots(muster: Muster, words: str) -> tuple[list[TaskRecord], dict[str, TaskRecord]]:
    """Those that fit, and the roots that were looked at."""
    found: list[TaskRecord] = []
    roots: dict[str, TaskRecord] = {}
    async for root in records_of(muster.transport.roots, at_once=PAGE):
        roots[root.task_id] = root
        if root.task_id.endswith(words):
            found.append(root)
        if len(roots) == MAX_ROOTS or (found and len(words) >= UNIQUE):
            break
    return found, roots


async def _below(muster: Muster, roots: dict[str, TaskRecord], words: str) -> list[TaskRecord]:
    live = (await muster.transport.live_roots(limit=MAX_TRACES)).records
    traces = list(dict.fromkeys(root.trace_id for root in (*live, *roots.values())))[:MAX_TRACES]
    found: list[TaskRecord] = []
    for start in range(0, len(traces), TRACES_AT_ONCE):
        some = traces[start : start + TRACES_AT_ONCE]
        of_traces = await asyncio.gather(*(muster.tasks(trace_id=each, limit=MAX_TASKS) for each in some))
        found += [task for tasks in of_traces for task in tasks if task.task_id.endswith(words)]
    return found
