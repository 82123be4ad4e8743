"""Outbox: a submitter keeps what it submitted until it has seen the end of it.

A server that fails over may forget what it has acknowledged: replication is asynchronous. So whoever waits for a task
and finds it gone submits it again, under the same ids and the same key; a server that had forgotten nothing answers
with the task that it has.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Iterable, Sequence

from envelope.logs import get_logger
from envelope.messages import TaskRequest, TaskResult

from .base import Handle, Lease, Transport
from .errors import NotFound, no_task
from .limits import DAY_MS
from .tracing import submission

_log = get_logger("outbox")


class Outbox:
    """Between a submitter and its transport."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._kept: dict[str, tuple[float, TaskRequest]] = {}  # task id → since when (monotonic), and what

    async def submit(self, requests: Sequence[TaskRequest], *, under: Lease | None = None) -> list[Handle]:
        """As `Transport.submit`; what it accepts is kept until its result was read here, or its time is over."""
        with submission(requests) as going:
            requests = going.requests
            handles = await self._transport.submit(requests, under=under)
            going.accepted(handles)
        now_s = time.monotonic()
        self._kept = {
            name: (since_s, one) for name, (since_s, one) in self._kept.items() if now_s < _until_s(since_s, one)
        }
        for request, handle in zip(requests, handles, strict=True):
            # the task that stands for a known key may have been forgotten when we ask for it: ours is the same work
            same = request
            if handle.existing:
                same = request.model_copy(update={"task_id": handle.task_id, "trace_id": handle.trace_id})
            self._kept[handle.task_id] = (now_s, same)
        return handles

    async def results(self, task_ids: Iterable[str]) -> AsyncGenerator[TaskResult]:
        """As `Transport.results`, but tasks of ours that the server has forgotten are submitted again.

        `NotFound` for those that are not ours.
        """
        wanted = dict.fromkeys(task_ids)
        while wanted:
            try:
                async for result in self._transport.results(wanted):
                    del wanted[result.task_id]
                    self._kept.pop(result.task_id, None)
                    yield result
            except NotFound:
                await self.submit_forgotten(wanted)

    async def submit_forgotten(self, task_ids: Iterable[str]) -> None:
        """Submit those again that the server does not know; `NotFound` for one that was not submitted here."""
        forgotten = [task_id for task_id in task_ids if not await self._is_known(task_id)]
        now_ms = await self._transport.now_ms()
        for task_id in forgotten:
            if task_id not in self._kept:
                raise no_task(task_id)
            since_s, request = self._kept[task_id]
            _log.warning("task_forgotten", task_id=task_id, trace_id=request.trace_id)
            deadline_ms = max(1, request.deadline_ms - round(1000 * (time.monotonic() - since_s)))
            fresh = {"created_at_ms": now_ms, "deadline_ms": deadline_ms}  # its time goes on
            await self._transport.submit([request.model_copy(update=fresh)])

    async def _is_known(self, task_id: str) -> bool:
        try:
            await self._transport.record(task_id)
        except NotFound:
            return False
        return True


def _until_s(since_s: float, request: TaskRequest) -> float:
    return since_s + max(request.deadline_ms, DAY_MS) / 1000
