"""Staying with one task to its end."""

from __future__ import annotations

from collections.abc import Callable

from envelope.messages import TaskResult
from transport.base import Entry, Handle, Transport
from transport.errors import NotFound
from transport.outbox import Outbox


async def stay(
    transport: Transport, outbox: Outbox, handle: Handle, watch: Callable[[Entry], None] | None
) -> TaskResult:
    """Its result. `watch` sees each entry of its trace once, as far as they are kept, up to the task's own result.

    A task of the outbox that a failover has forgotten is submitted again.
    """
    if watch is not None:
        after = "0"
        while (after := await _watched(transport, handle, watch, after)) != "":
            await outbox.submit_forgotten([handle.task_id])
    [result] = [result async for result in outbox.results([handle.task_id])]
    return result


async def _watched(transport: Transport, handle: Handle, watch: Callable[[Entry], None], after: str) -> str:
    """Empty when the task has ended, else where the trace was forgotten."""
    try:
        async for entry in transport.follow(handle.trace_id, after=after):
            after = entry.id
            watch(entry)
            if isinstance(entry.message, TaskResult) and entry.message.task_id == handle.task_id:
                break
    except NotFound:
        return after
    return ""
