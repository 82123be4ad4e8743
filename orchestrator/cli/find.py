"""A task by what a person types of its id."""

from __future__ import annotations

from pydantic import TypeAdapter, ValidationError

from envelope.ids import TaskId
from transport.base import TaskRecord

from ..client import Muster
from ..errors import BadInput
from .options import task_words

# How far back an abbreviation reaches; whole ids reach everything.
LATEST = 1000


async def find_task(muster: Muster, words: str) -> TaskRecord:
    """The task with this id, or with this end of its id. `NotFound` and `BadInput` say why there is none."""
    try:
        return await muster.record(TypeAdapter[str](TaskId).validate_python(words))
    except ValidationError:
        return await _by_end(muster, words)


async def _by_end(muster: Muster, words: str) -> TaskRecord:
    task_words(words)
    roots = await muster.tasks(limit=LATEST)
    found = [task for task in roots if task.task_id.endswith(words)]
    if not found:
        below = [await muster.tasks(trace_id=root.trace_id, limit=LATEST) for root in roots]
        found = [task for tasks in below for task in tasks if task.task_id.endswith(words)]
    if len(found) != 1:
        what = f"{len(found)} tasks end" if found else "no task ends"
        raise BadInput(f"{what} in {words!r}", hint="see the ids with: muster task list --limit 1000")
    return found[0]
