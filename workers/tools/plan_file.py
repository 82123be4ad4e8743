"""The plan file: the one file that whoever plans may write.

It is a text of the session and no file of the workspace, which stays as read-only as it is. So it can be in no patch,
no command reaches it, and it is there again in another sandbox. `read`, `write` and `edit` know it by its path, and by
the name that the agent has given it in the folder where other tools keep plans.
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

from envelope.scope import offers
from sandbox.base import MIB, WORKSPACE, FileStat, Sandbox
from sandbox.errors import PathError

from ..permissions.guard import PLAN_FILE, Guard
from ..permissions.rules import hidden
from .asking import Shows
from .base import CallResult, Target, Tool, ToolContext, ToolResult
from .errors import ToolError
from .paths import absolute, relative
from .planning import Planning
from .question import PLAN_EXIT

MAX_BYTES = 16 * 1024  # people read all of it before they say yes
WRITERS = frozenset({"write", "edit"})
TOOLS = WRITERS | {"read"}
OTHER_FOLDER = f"{WORKSPACE}/.opencode/plans"
PLAN_NAME = "plan_name"  # in the metadata of what wrote the plan, beside its text


def path_of(session: str) -> str:
    """Absolute. `session`: its name."""
    return f"{WORKSPACE}/.muster/plans/{session}.md"


def plans(guard: Guard) -> bool:
    """Is this an agent that can only plan: one that may leave its plan to others, and may edit nothing itself?"""
    return not hidden(guard.rules, PLAN_EXIT) and not offers(guard.scope, "edit")


def is_plans_name(path: str) -> bool:
    """Is this absolute path one that a plan may be written by, beside its own?

    >>> [is_plans_name(f"{WORKSPACE}/.opencode/plans/{name}") for name in ("a.md", "a.txt", "b/a.md", ".md")]
    [True, False, False, False]
    """
    folder, name = posixpath.split(path)
    return folder == OTHER_FOLDER and name.endswith(".md") and name != ".md"


def knowing_plan_file(tools: Mapping[str, Tool], planning: Planning, *, only: bool) -> dict[str, Tool]:
    """The tools, of which some know the plan file. `only`: they write nothing else."""
    return {name: InPlanFile(tool, planning, only=only) if name in TOOLS else tool for name, tool in tools.items()}


class InPlanFile:
    def __init__(self, tool: Tool, planning: Planning, *, only: bool) -> None:
        self._tool = tool
        self._planning = planning
        self._names_it = only and tool.name in WRITERS
        self.name = tool.name
        self.parameters: dict[str, Any] = tool.parameters
        bound = f" Your plan, {planning.path}, is all that you can write." if self._names_it else ""
        self.description = tool.description + bound

    def targets(self, arguments: Mapping[str, Any]) -> list[Target]:
        if not self._is_meant(arguments):
            return self._tool.targets(arguments)
        return [Target(PLAN_FILE, relative(arguments["filePath"]))]

    def title(self, arguments: Mapping[str, Any]) -> str:
        return "the plan" if self._is_meant(arguments) else self._tool.title(arguments)

    async def run(self, context: ToolContext, call_id: str, arguments: Mapping[str, Any]) -> CallResult:
        if not self._is_meant(arguments):
            return await self._tool.run(context, call_id, arguments)
        path = absolute(arguments["filePath"])
        file = _OneFile(path, context.planning.text)
        result = await self._tool.run(file.around(context), call_id, arguments)
        if file.text == context.planning.text or not isinstance(result, ToolResult):
            return result
        context.planning.text, context.planning.name = file.text, path
        return replace(result, metadata={**result.metadata, PLAN_FILE: file.text, PLAN_NAME: path})

    async def preview(self, context: ToolContext, arguments: Mapping[str, Any]) -> str:
        if not isinstance(self._tool, Shows):
            return ""
        file = _OneFile(context.planning.path, context.planning.text)
        return await self._tool.preview(file.around(context) if self._is_meant(arguments) else context, arguments)

    def _is_meant(self, arguments: Mapping[str, Any]) -> bool:
        if "filePath" not in arguments:
            return False
        path = absolute(arguments["filePath"])
        return path in (self._planning.path, self._planning.name) or (self._names_it and is_plans_name(path))


class _OneFile:
    """In place of a sandbox, for tools that touch one file: empty is as good as not there."""

    def __init__(self, path: str, text: str) -> None:
        self.path = path
        self.text = text

    def around(self, context: ToolContext) -> ToolContext:
        """What is written there is no change of the workspace."""

        async def opened() -> Sandbox:
            return cast(Sandbox, self)  # the file tools use no more of one than this has

        return replace(context, sandbox=opened)

    async def stat(self, path: str) -> FileStat:
        if not self.text:
            raise PathError(f"{path} does not exist")
        return FileStat(path, "file", len(self.text.encode()), 0o644, 0.0)

    async def list(self, path: str, *, limit: int = 1000) -> list[FileStat]:
        return []

    async def read(self, path: str, *, offset_bytes: int = 0, max_bytes: int = 10 * MIB) -> bytes:
        return self.text.encode()

    async def write(self, path: str, content: bytes, *, mode: int | None = None) -> None:
        if len(content) > MAX_BYTES:
            raise ToolError(f"a plan has at most {MAX_BYTES} bytes, and this has {len(content)}; write a shorter one")
        self.text = content.decode()
