"""All tools, and which of them a task is offered."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from envelope.pattern import match

from ..agents.base import Agent
from ..permissions.guard import Guard
from ..web.access import WebAccess
from .apply_patch import ApplyPatch
from .base import Tool
from .bash import Bash
from .bash_jobs import BashOutput, BashStop
from .edit import Edit
from .glob import Glob
from .grep import Grep
from .list import ListDirectory
from .plan_file import WRITERS, plans
from .plan_update import PlanUpdate
from .question import AskQuestions, PlanExit
from .read import Read
from .skill import SkillTool
from .task import Task
from .todo import TodoRead, TodoWrite
from .web import web_tools
from .write import Write

# One kind of model edits with these, the other with those.
EDITORS = frozenset({"edit", "write"})
PATCHERS = frozenset({"apply_patch"})
# Whoever names the key has these, too.
COMES_WITH = {
    BashOutput.name: frozenset({Bash.name}),
    BashStop.name: frozenset({Bash.name}),
    **dict.fromkeys(PATCHERS, EDITORS),
}


def all_tools(catalogue: Mapping[str, str] | None = None) -> dict[str, Tool]:
    """Every tool by its name. `catalogue`: the subagents that `task` may start, with their descriptions."""
    task = Task(catalogue or {})
    tools: tuple[Tool, ...] = (
        ApplyPatch(),
        AskQuestions(),
        Bash(),
        BashOutput(),
        BashStop(),
        Edit(),
        Glob(),
        Grep(),
        ListDirectory(),
        PlanExit(),
        PlanUpdate(),
        Read(),
        SkillTool(),
        task,
        TodoRead(),
        TodoWrite(),
        Write(),
    )
    return {tool.name: tool for tool in tools}


def offered(
    agent: Agent,
    guard: Guard,
    capabilities: Iterable[str] | None,
    catalogue: Mapping[str, str],
    *,
    model: str = "",
    foreign: Iterable[Tool] = (),
    web: WebAccess | None = None,
) -> list[Tool]:
    """The tools that the model is shown, sorted by name so that the prompt's prefix stays the same.

    A tool needs a grant, no rule that denies all of it, the agent's switch, and, where the request names
    capabilities, a place among them; `task` needs somebody to start. Who writes patches best edits with `apply_patch`,
    under the names of `edit` and `write`; others have these two. `foreign`: tools of others, which never take the place
    of ours.
    """
    named = None if capabilities is None else frozenset(capabilities)
    unused = unused_editors(guard, model)

    def is_offered(tool: Tool) -> bool:
        names = names_of(tool.name)
        switched_on = any(match(switch, name) for switch in agent.tools for name in names)
        return switched_on and (named is None or bool(names & named)) and not withheld(guard, tool.name)

    own = all_tools(catalogue) | ({} if web is None else {tool.name: tool for tool in web_tools(guard.check, web)})
    every = {tool.name: tool for tool in foreign} | own
    tools = [tool for name, tool in every.items() if name not in unused and (name != "task" or catalogue)]
    return sorted(filter(is_offered, tools), key=lambda tool: tool.name)


def names_of(tool: str) -> frozenset[str]:
    """By which of them an agent's switches and a request's capabilities name a tool."""
    return COMES_WITH.get(tool, frozenset[str]()) | {tool}


def unused_editors(guard: Guard, model: str) -> frozenset[str]:
    """Of two ways to edit, the one that this model is not offered."""
    return EDITORS if writes_patches(model) and not plans(guard) else PATCHERS


def withheld(guard: Guard, tool: str) -> bool:
    """Do scope or rules deny all of it? Who plans writes one file, whatever they say."""
    return guard.hides(tool) and not (tool in WRITERS and plans(guard))


def writes_patches(model: str) -> bool:
    """Was the model trained on `apply_patch`?

    >>> [writes_patches(model) for model in ("openai/gpt-5", "gpt-4.1", "gpt-oss-120b", "claude-opus")]
    [True, False, False, False]
    """
    return "gpt-" in model and "gpt-4" not in model and "oss" not in model
