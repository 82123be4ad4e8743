"""`list`: the entries of a directory."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from typing import Any

from sandbox.base import WORKSPACE, Sandbox

from .base import Target, ToolContext, ToolResult
from .errors import ToolError
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


async def entries_text(sandbox: Sandbox, path: str, *, offset: int = 1, limit: int = MAX_ENTRIES) -> str:
    """One entry a line, from the `offset`th on; says where to go on when there are more than it shows."""
    last = offset - 1 + min(limit, MAX_ENTRIES)
    entries = await sandbox.list(path, limit=last + 1)
    if offset > max(1, len(entries)):
        raise ToolError(f"offset {offset} is past the end: the directory has {len(entries)} entries")
    names = [posixpath.basename(entry.path) + ("/" if entry.kind == "directory" else "") for entry in entries]
    shown = "\n".join(names[offset - 1 : last])
    if len(entries) > last:
        return f"{shown}\n(entries {offset} to {last}, and there are more; `read` goes on with offset={last + 1})"
    return shown or "(empty directory)"
