"""Families of tasks: a root, what it started, and the shards of a batch, each in a trace of its own."""

from __future__ import annotations

from transport.base import TaskRecord, Transport
from transport.errors import NotFound
from transport.listing import cursor_of

from .budgets import SHARDED
from .pages import records_of

# As many tasks of a trace are looked through.
MAX_LISTED = 10_000
AT_ONCE = 1_000
# Clocks of two cells' servers may differ by this: one that is more than 5 minutes off is refused.
LEEWAY_MS = 10 * 60 * 1000


async def children_of(transport: Transport, task: TaskRecord) -> list[TaskRecord]:
    """In order of submission; of a batch with its shards."""
    inside = await transport.tasks(trace_id=task.trace_id, limit=MAX_LISTED)
    shards = await _shards_of(transport, task) if task.agent in SHARDED else []
    return [*(one for one in inside if one.parent_task_id == task.task_id), *shards]


async def _shards_of(transport: Transport, batch: TaskRecord) -> list[TaskRecord]:
    """They are among its tenant's roots that were accepted while it lived."""
    ended_ms = batch.finished_at_ms or await transport.now_ms()
    after = cursor_of((ended_ms + LEEWAY_MS, "f" * 36))
    found: list[TaskRecord] = []
    async for root in records_of(transport.roots, tenant=batch.tenant, after=after, at_once=AT_ONCE):
        if root.accepted_at_ms < batch.accepted_at_ms - LEEWAY_MS:
            break
        if root.batch_id == batch.task_id:
            found.append(root)
    return found[::-1]


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
