"""The first words of a task: its prompt, then what the request brings along."""

from __future__ import annotations

from envelope.messages import TaskRequest

from .references.names import listing


async def first_prompt(request: TaskRequest, prompt: str) -> str:
    return "\n\n".join(part for part in (prompt, listing(request.context_refs)) if part)
