"""The first words of a task: its prompt, with what the request brings along."""

from __future__ import annotations

from envelope.messages import TaskRequest

from ..agent.history import Prompt
from ..references.names import listing
from ..sandboxes.of_task import TaskSandbox


async def first_prompt(request: TaskRequest, prompt: str, sandbox: TaskSandbox) -> Prompt:
    """The prompt, the request's references, and its attachments, which are in the sandbox then."""
    if request.attachments:
        await sandbox.opened()
    furnished = sandbox.furnished
    text = "\n\n".join(part for part in (prompt, listing(request.context_refs), furnished.text) if part)
    return Prompt(text, furnished.files)
