"""What an earlier run of a batch has left undone: another one does it again, though nothing of it has changed."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from contextlib import suppress

from envelope.lifecycle import State
from transport.base import TaskRecord
from transport.errors import NotFound

from ..records import Records
from .report import BatchReport, ShardReport
from .stages import shard_intent

NOT_DONE = "it had not been done when the batch ended"
FORGOTTEN = "it was done too long ago to be known"
AT_ONCE = 100


async def undone_then(
    muster: Records, earlier: TaskRecord, report: BatchReport | None, keys: Collection[str]
) -> Mapping[str, str]:
    """Those of the shards, by `repository:key`, with why.

    `report`: the whole of it; None of a batch that ended before there was one.
    """
    oldest_ms = await muster.transport.now_ms() - muster.transport.limits.idempotency_ms
    if earlier.accepted_at_ms < oldest_ms:
        return dict.fromkeys(keys, FORGOTTEN)
    if report is None:
        done = await _completed(muster, earlier.trace_id)
        return {key: NOT_DONE for key in keys if shard_intent(key) not in done}
    shards = {f"{one.name}:{shard.key}": shard for one in report.repositories for shard in one.shards}
    whys = {key: await _why(muster, shards[key], oldest_ms) if key in shards else NOT_DONE for key in keys}
    return {key: why for key, why in whys.items() if why}


async def _why(muster: Records, shard: ShardReport, oldest_ms: int) -> str:
    """Empty for one whose work is taken as it is. Of most the report alone tells."""
    if shard.outcome == "failed":
        return shard.detail or shard.code
    if shard.outcome != "set_aside" and not shard.reused:
        return ""
    task = await _known(muster, shard.task_id)
    if task is None:
        return FORGOTTEN
    if task.state is not State.COMPLETED:
        return shard.detail or shard.code
    return FORGOTTEN if task.accepted_at_ms < oldest_ms else ""


async def _completed(muster: Records, trace_id: str) -> set[str]:
    """The intents of the batch's tasks that did."""
    children = (await muster.tree(trace_id)).root_task.children
    groups = [children[start : start + AT_ONCE] for start in range(0, len(children), AT_ONCE)]
    records = [one for some in groups for one in await asyncio.gather(*(_known(muster, child) for child in some))]
    return {record.intent for record in records if record is not None and record.state is State.COMPLETED}


async def _known(muster: Records, task_id: str) -> TaskRecord | None:
    with suppress(NotFound):
        return await muster.record(task_id)
    return None
