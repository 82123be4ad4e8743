"""A dead task's work as a new task."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from typing import Any

from envelope.errors import EnvelopeError
from envelope.ids import content_key, new_task_id, new_trace_id
from envelope.lifecycle import State
from envelope.messages import TaskRequest
from transport.base import Transport

from .errors import BadInput

_BLOB = re.compile(r"sha256:[0-9a-f]{64}")


async def requeued(transport: Transport, task_id: str) -> TaskRequest:
    """The request of a dead task as that of a new one: without a parent, and with a key that the dead one alone gives,
    so that who requeues it twice gets one task.

    `NotFound` when the task or a blob that it needs is gone; `BadInput` when it did not end in error, or its bytes are
    no request. The blobs that it names live as long as a new task's.
    """
    request = await _dead(transport, task_id)
    for blob in set(_blobs_in(request.model_dump(exclude={"signature"}))):
        await transport.blobs.get(blob)
    key = content_key("requeue", task_id)
    # a session goes on where it is; a key is looked for where it says
    home = {"near": request.trace_id} if request.resume_token else {"key": f"{request.tenant}:{key}"}
    new = {
        "task_id": new_task_id(),
        "trace_id": new_trace_id(**home),
        "parent_task_id": None,
        "batch_id": "",  # the batch of a dead shard ends without it, and would take this one along
        "retry_of": task_id,
        "idempotency_key": key,
        "created_at_ms": time.time_ns() // 1_000_000,
    }
    return request.model_copy(update=new)


async def _dead(transport: Transport, task_id: str) -> TaskRequest:
    record = await transport.record(task_id)
    if record.state is not State.ERROR:
        hint = f"see it with: muster task show {task_id}"
        raise BadInput(f"the task {task_id} is no dead letter, it is {record.state}", hint=hint)
    hint = f"take it off the list with: muster dlq purge {task_id}"
    try:
        request = await transport.request(task_id)
    except EnvelopeError as e:
        raise BadInput(f"the bytes of {task_id} are no request and cannot be requeued: {e.message}", hint=hint) from e
    if request.task_id != task_id:
        raise BadInput(f"the bytes of {task_id} are another task's and cannot be requeued", hint=hint)
    return request


def _blobs_in(value: Any) -> Iterator[str]:
    """Wherever one is named: beside the request's own fields, drivers name bundles in their parameters."""
    if isinstance(value, str):
        if _BLOB.fullmatch(value):
            yield value
    elif isinstance(value, dict):
        for inner in value.values():  # pyright: ignore[reportUnknownVariableType]
            yield from _blobs_in(inner)
    elif isinstance(value, list | tuple):
        for inner in value:  # pyright: ignore[reportUnknownVariableType]
            yield from _blobs_in(inner)
