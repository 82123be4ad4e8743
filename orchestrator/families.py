"""Which tasks belong together: a root, what it started, and the shards of a batch, each in a trace of its own."""

from __future__ import annotations

from transport.base import TaskRecord, Transport
from transport.errors import NotFound

from .budgets import SHARDED

# As many tasks of a trace, and as many of the latest roots, are looked through.
MAX_LISTED = 10_000


async def children_of(transport: Transport, task: TaskRecord) -> list[TaskRecord]:
    """In order of submission; of a batch with those of its shards that are among the latest roots."""
    inside = await transport.tasks(trace_id=task.trace_id, limit=MAX_LISTED)
    roots = await transport.tasks(limit=MAX_LISTED) if task.agent in SHARDED else []
    shards = [root for root in reversed(roots) if root.batch_id == task.task_id]
    return [*(one for one in inside if one.parent_task_id == task.task_id), *shards]


async def root_of(transport: Transport, trace_id: str) -> TaskRecord:
    """`NotFound` for a trace that there is not."""
    roots = await transport.tasks(trace_id=trace_id, limit=1)
    if not roots:
        raise NotFound(f"there is no trace {trace_id}", hint="see the latest with: muster task list")
    return roots[0]


async def all_of(transport: Transport, root: TaskRecord) -> list[TaskRecord]:
    """Every task of a root's trace, and of a batch also its shards."""
    inside = await transport.tasks(trace_id=root.trace_id, limit=MAX_LISTED)
    known = {task.task_id for task in inside}
    return [*inside, *(shard for shard in await children_of(transport, root) if shard.task_id not in known)]
