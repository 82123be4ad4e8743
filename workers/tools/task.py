"""`task`: hand a piece of work to a subagent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from envelope.lifecycle import State
from envelope.messages import TaskResult

from ..clock import now_ms
from ..project.framing import within
from .background import Background, passed_on, started
from .base import CallResult, ChildRequest, Delegated, Target, ToolContext, ToolResult
from .errors import ToolError
from .schema import flag, parameters, text

TASK = "task"


class Task:
    name = TASK
    parameters = parameters(
        ["description", "prompt", "subagent_type"],
        description=text("the task in three to five words"),
        prompt=text(
            "what it is for, what you know already (paths, names), what to find out or do, what to answer with"
        ),
        subagent_type=text("the agent to start"),
        task_id=text(
            "the id of an earlier task of yours, whatever its state, to go on in its session instead of a new one;"
            " with background, one that still works reads your prompt before its next turn"
        ),
        background=flag("do not wait: the call returns at once, and you are told when the subagent has ended"),
    )

    def __init__(self, catalogue: Mapping[str, str]) -> None:
        """`catalogue`: name → description of the agents that may be started."""
        agents = "\n".join(f"- {name}: {description}" for name, description in sorted(catalogue.items()))
        self.description = (
            "Start a subagent on a task of its own: work over many files of which you need the conclusion, or a part"
            " that is independent of the others. It sees nothing but the prompt, and answers once, to you alone: do not"
            " do the same work meanwhile, and pass on what matters. Several calls in one turn run at the same time."
            f" The agents:\n{agents}"
        )

    def targets(self, arguments: Mapping[str, Any]) -> list[Target]:
        return [Target("task", arguments["subagent_type"])]

    def title(self, arguments: Mapping[str, Any]) -> str:
        return arguments["description"]

    async def run(self, context: ToolContext, call_id: str, arguments: Mapping[str, Any]) -> CallResult:
        agent, catalogue = arguments["subagent_type"], context.children.catalogue()
        if agent not in catalogue:
            raise ToolError(f"there is no subagent {agent!r}; there are: {', '.join(sorted(catalogue)) or 'none'}")
        session, title, prompt = arguments.get("task_id", ""), self.title(arguments), arguments["prompt"]
        in_background = arguments.get("background", context.children.in_background(agent))
        if in_background and session and await context.children.tell(session, prompt):
            return passed_on(session, title)
        task_id = await context.children.start(ChildRequest(call_id, agent, title, prompt, session, in_background))
        if in_background:
            return started(Background(task_id, session or task_id, agent, title))
        return Delegated(task_id, title, now_ms(), session, agent)


def answer_of(result: TaskResult, *, title: str) -> ToolResult:
    """What the caller's model is told of a subagent that has ended."""
    is_error = result.status is not State.COMPLETED or bool(result.errors)
    return ToolResult(result_text(result), title=title, is_error=is_error)


def result_text(result: TaskResult, *, agent: str = "") -> str:
    """A child's ending in words for the model: its answer, what it changed, and what went wrong."""
    # the id names the session: what `task_id` of a later call goes on with
    named = f' agent="{agent}"' if agent else ""
    parts = [result.output.text] if result.output.text else []
    if result.patch and result.patch.files:
        where = "Changed files, not taken into your workspace" if result.errors else "Changed files"
        parts.append(f"{where}: " + ", ".join(f"{file.status} {file.path}" for file in result.patch.files))
    parts += [f"Error {error.code}: {error.message}" for error in result.errors]
    if result.errors and result.resume_token:
        parts.append("To go on where it stopped, call task with this id as task_id.")
    elif result.errors:
        parts.append("It has left nothing to go on with; start another one if its work is still needed.")
    inner = within(TASK, "\n".join(parts))
    return f'<task id="{result.resume_token or result.task_id}"{named} state="{result.status}">\n{inner}\n</task>'
