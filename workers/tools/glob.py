"""`glob`: files by the pattern of their name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sandbox.base import WORKSPACE

from .base import Target, ToolContext, ToolResult
from .paths import absolute, looked_in, outside
from .schema import parameters, text

STOPPED = "Nothing was found until the search was stopped, for it took too long; use a narrower pattern or path."
MAX_PATHS = 100  # as users of agents know it: more is a sign of too wide a pattern


class Glob:
    name = "glob"
    description = (
        "Find files by a glob pattern such as `**/*.py`. Files that .gitignore names are left out."
        f" At most {MAX_PATHS} paths, absolute."
    )
    parameters = parameters(
        ["pattern"], pattern=text("the glob"), path=text(f"absolute path of the directory (default {WORKSPACE})")
    )

    def targets(self, arguments: Mapping[str, Any]) -> list[Target]:
        folder = arguments.get("path", WORKSPACE)
        return [*outside(folder), Target("glob", arguments["pattern"], looked_in(folder))]

    def title(self, arguments: Mapping[str, Any]) -> str:
        return arguments["pattern"]

    async def run(self, context: ToolContext, call_id: str, arguments: Mapping[str, Any]) -> ToolResult:
        sandbox, path = await context.sandbox(), absolute(arguments.get("path", WORKSPACE))
        paths, more = await sandbox.glob(arguments["pattern"], path, limit=MAX_PATHS)
        lines = [*paths, f"(only the first {MAX_PATHS} paths are shown; use a narrower pattern)"] if more else paths
        found = "\n".join(lines) if paths else STOPPED if more else "No files found."
        return ToolResult(found, title=self.title(arguments))
