"""A trace's cap as something that people answer: a task that it stops waits for the ask named here."""

from __future__ import annotations

from typing import Protocol

from .base import Answer, TaskRecord
from .errors import NotFound

# As many tasks as a trace has; each is asked in turn, for a person's rare command.
MAX_TASKS = 100_000


class Answers(Protocol):
    async def tasks(self, *, trace_id: str | None = None, limit: int = 100) -> list[TaskRecord]: ...
    async def answer(self, task_id: str, ask_id: str, text: str, *, by: str) -> Answer: ...


def ask_for_more(cap_microusd: int) -> str:
    """The name of the ask: `will you raise this cap?`"""
    return f"budget:{cap_microusd}"


async def tell(transport: Answers, trace_id: str, *, before_microusd: int, by: str) -> None:
    """The cap was raised. Tasks that are about to wait have their answer, too: nobody misses it."""
    for task in await transport.tasks(trace_id=trace_id, limit=MAX_TASKS):
        if task.finished_at_ms is None:
            try:
                await transport.answer(task.task_id, ask_for_more(before_microusd), "raised", by=by)
            except NotFound:
                continue  # it has ended meanwhile
