"""`task`: hand a piece of work to a subagent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from envelope.lifecycle import State
from envelope.messages import TaskResult

from .base import ChildRequest, Target, ToolContext, ToolResult
from .errors import ToolError
from .schema import parameters, text


class Task:
    name = "task"
    parameters = parameters(
        ["description", "prompt", "subagent_type"],
        description=text("the task in three to five words"),
        prompt=text("all that the subagent needs to know, and what to answer"),
        subagent_type=text("the agent to start"),
    )

    def __init__(self, catalogue: Mapping[str, str]) -> None:
        """`catalogue`: name → description of the agents that may be started."""
        agents = "\n".join(f"- {name}: {description}" for name, description in sorted(catalogue.items()))
        self.description = (
            "Start a subagent on a task of its own; it sees nothing but the prompt and answers once. Several calls in"
            f" one turn run at the same time. The agents:\n{agents}"
        )

    def targets(self, arguments: Mapping[str, Any]) -> list[Target]:
        return [Target("task", arguments["subagent_type"])]

    def title(self, arguments: Mapping[str, Any]) -> str:
        return arguments["description"]

    async def run(self, context: ToolContext, call_id: str, arguments: Mapping[str, Any]) -> ToolResult:
        agent, catalogue = arguments["subagent_type"], context.children.catalogue()
        if agent not in catalogue:
            raise ToolError(f"there is no subagent {agent!r}; there are: {', '.join(sorted(catalogue)) or 'none'}")
        request = ChildRequest(call_id, agent, arguments["description"], arguments["prompt"])
        result = await context.children.run(request)
        if result.patch and result.patch.files:
            context.may_have_written = True
        return ToolResult(
            result_text(result),
            title=self.title(arguments),
            is_error=result.status is not State.COMPLETED or bool(result.errors),
        )


def result_text(result: TaskResult) -> str:
    """A child's ending in words for the model: its answer, what it changed, and what went wrong."""
    parts = [f'<task id="{result.task_id}" state="{result.status}">']
    if result.output.text:
        parts.append(result.output.text)
    if result.patch and result.patch.files:
        parts.append("Changed files: " + ", ".join(f"{file.status} {file.path}" for file in result.patch.files))
    parts += [f"Error {error.code}: {error.message}" for error in result.errors]
    if result.errors and result.resume_token:
        parts.append(f"To go on where it stopped: {result.resume_token}")
    return "\n".join([*parts, "</task>"])
