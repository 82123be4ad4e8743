"""What a task was asked to do, in a few lines."""

from __future__ import annotations

from collections.abc import Iterator

from envelope.errors import EnvelopeError
from envelope.messages import TaskRequest

from ..client import Muster
from .summary import Line

PROMPT_CHARS = 100


async def readable_request(muster: Muster, task_id: str) -> TaskRequest | None:
    """None for bytes that are no request of this fleet."""
    try:
        return await muster.request(task_id)
    except EnvelopeError:
        return None


def request_lines(request: TaskRequest | None) -> Iterator[Line]:
    """What was asked for, by whom, and of its prompt the beginning. None: bytes that are no request of this fleet."""
    if request is None:
        yield "request", "its bytes cannot be read"
        return
    yield "task", request.task_id
    yield "request", f"{request.agent} in the pool {request.recipient}, tenant {request.tenant}, from {request.sender}"
    kin = {"a child of": request.parent_task_id, "a shard of": request.batch_id, "it repeats": request.retry_of}
    for what, task_id in kin.items():
        if task_id:
            yield "", f"{what} {task_id}"
    lines = request.input.prompt.strip().splitlines()
    if lines:
        yield "prompt", lines[0][:PROMPT_CHARS] + ("…" if len(lines) > 1 or len(lines[0]) > PROMPT_CHARS else "")
