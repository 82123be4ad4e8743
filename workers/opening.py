"""The first words of a task: the system prompt's last lines, and its prompt with what the request brings along."""

from __future__ import annotations

from envelope.messages import TaskRequest

from .agent.structured import SYSTEM_LINE as FORM_LINE
from .artifacts import SYSTEM_LINE as ARTIFACTS_LINE
from .references.names import listing
from .task_sandbox import TaskSandbox


def whole_system(system: str, request: TaskRequest) -> str:
    """The system prompt with what this task's answer may bring along, and how it must be given."""
    lines = [ARTIFACTS_LINE, *([FORM_LINE] if request.output_schema is not None else [])]
    return "\n\n".join([system, *lines])


async def first_prompt(request: TaskRequest, prompt: str, sandbox: TaskSandbox) -> str:
    """The prompt, the request's references, and its attachments, which are in the sandbox then."""
    if request.attachments:
        await sandbox.opened()
    return "\n\n".join(part for part in (prompt, listing(request.context_refs), sandbox.furnished) if part)
