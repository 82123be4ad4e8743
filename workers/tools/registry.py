"""All tools, and which of them a task is offered."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from envelope.pattern import match

from ..agents.base import Agent
from ..permissions.guard import Guard
from .base import Tool
from .bash import Bash
from .edit import Edit
from .glob import Glob
from .grep import Grep
from .list import ListDirectory
from .read import Read
from .task import Task
from .write import Write


def all_tools(catalogue: Mapping[str, str] | None = None) -> dict[str, Tool]:
    """Every tool by its name. `catalogue`: the subagents that `task` may start, with their descriptions."""
    task = Task(catalogue or {})
    tools: tuple[Tool, ...] = (Bash(), Edit(), Glob(), Grep(), ListDirectory(), Read(), task, Write())
    return {tool.name: tool for tool in tools}


def offered(agent: Agent, guard: Guard, capabilities: Iterable[str] | None, catalogue: Mapping[str, str]) -> list[Tool]:
    """The tools that the model is shown, sorted by name so that the prompt's prefix stays the same.

    A tool needs a grant, no rule that denies all of it, the agent's switch, and, where the request names
    capabilities, a place among them; `task` needs somebody to start.
    """
    named = None if capabilities is None else frozenset(capabilities)

    def is_offered(tool: Tool) -> bool:
        switched_on = any(match(switch, tool.name) for switch in agent.tools)
        return switched_on and (named is None or tool.name in named) and not guard.hides(tool.name)

    tools = all_tools(catalogue)
    if not catalogue:
        del tools["task"]
    return sorted(filter(is_offered, tools.values()), key=lambda tool: tool.name)
