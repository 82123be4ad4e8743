"""The first words of a task: its prompt, with what the request brings along."""

from __future__ import annotations

from envelope.messages import TaskRequest

from .references.names import listing
from .task_sandbox import TaskSandbox


async def first_prompt(request: TaskRequest, prompt: str, sandbox: TaskSandbox) -> str:
    """The prompt, the request's references, and its attachments, which are in the sandbox then."""
    if request.attachments:
        await sandbox.opened()
    return "\n\n".join(part for part in (prompt, listing(request.context_refs), sandbox.furnished) if part)
