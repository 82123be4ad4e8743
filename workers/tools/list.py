"""`list`: the entries of a directory."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from typing import Any

from sandbox.base import WORKSPACE, Sandbox

from .base import Target, ToolContext, ToolResult
from .paths import absolute, outside, relative
from .schema import parameters, text

MAX_ENTRIES = 1000  # half of the lines that a tool may show (`truncate.py`)


class ListDirectory:
    name = "list"
    description = f"List a directory, sorted by name; directories end in `/`. At most {MAX_ENTRIES} entries."
    parameters = parameters([], path=text(f"absolute path of the directory (default {WORKSPACE})"))

    def targets(self, arguments: Mapping[str, Any]) -> list[Target]:
        path = arguments.get("path", WORKSPACE)
        return [*outside(path), Target("list", relative(path), absolute(path))]

    def title(self, arguments: Mapping[str, Any]) -> str:
        return relative(arguments.get("path", WORKSPACE))

    async def run(self, context: ToolContext, call_id: str, arguments: Mapping[str, Any]) -> ToolResult:
        path = absolute(arguments.get("path", WORKSPACE))
        return ToolResult(await entries_text(await context.sandbox(), path), title=self.title(arguments))


async def entries_text(sandbox: Sandbox, path: str) -> str:
    """One entry a line; says when there were more than it shows."""
    entries = await sandbox.list(path, limit=MAX_ENTRIES + 1)
    lines = [posixpath.basename(entry.path) + ("/" if entry.kind == "directory" else "") for entry in entries]
    more = [f"(only the first {MAX_ENTRIES} entries are shown)"] if len(lines) > MAX_ENTRIES else []
    return "\n".join(lines[:MAX_ENTRIES] + more) or "(empty directory)"
