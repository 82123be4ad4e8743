"""What commands of other packages are given: a way to a task's records. They find it as their context's object.

Imported with every command, so what it needs itself is imported on use.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from transport.base import TaskRecord, Transport


@asynccontextmanager
async def session_of(words: str) -> AsyncGenerator[tuple[Transport, TaskRecord]]:
    """The records, and the task that a person means with `words`: of a goal, its agent's."""
    from ..prompting import listener
    from ..settings import load_settings
    from .find import find_task
    from .fleet import open_records
    from .options import task_words

    task_words(words)
    async with open_records(load_settings()) as muster:
        found = await find_task(muster, words)
        request = await listener(muster.transport, found.task_id)
        yield muster.transport, await muster.record(request.task_id)
