"""`write`: make or replace a whole file."""

from __future__ import annotations

import codecs
from collections.abc import Mapping
from typing import Any

from .base import Target, ToolContext, ToolResult
from .diff import diff_of, shown_diff
from .elision import newly_elided
from .errors import ToolError
from .files import encoded, load_if_there, require_seen, store
from .paths import absolute, path_targets, relative
from .schema import parameters, text


class Write:
    name = "write"
    description = (
        "Write a file, replacing what it held; folders are made. A file that exists must have been read first. Prefer"
        " `edit` for changes to an existing file."
    )
    parameters = parameters(
        ["filePath", "content"], filePath=text("absolute path of the file"), content=text("its whole new content")
    )

    def targets(self, arguments: Mapping[str, Any]) -> list[Target]:
        return path_targets("edit", arguments["filePath"])

    def title(self, arguments: Mapping[str, Any]) -> str:
        return relative(arguments["filePath"])

    async def preview(self, context: ToolContext, arguments: Mapping[str, Any]) -> str:
        return await shown_diff({absolute(arguments["filePath"]): await _change(context, arguments)})

    async def run(self, context: ToolContext, call_id: str, arguments: Mapping[str, Any]) -> ToolResult:
        path = absolute(arguments["filePath"])
        before, content = await _change(context, arguments)
        await store(context, path, content)
        done = "Wrote" if before is not None else "Created"
        return ToolResult(f"{done} {path}.", self.title(arguments), metadata=await diff_of({path: (before, content)}))


async def _change(context: ToolContext, arguments: Mapping[str, Any]) -> tuple[bytes | None, bytes]:
    """What the file holds, and what it would hold."""
    path = absolute(arguments["filePath"])
    content = encoded(path, arguments["content"])
    before = await load_if_there(await context.sandbox(), path)
    if before is not None:
        require_seen(context, path, before)
        if line := newly_elided(arguments["content"], before.decode(errors="replace")):
            raise ToolError(f"content has {line!r} in place of lines of {path}, which would be lost; write them out")
        if before.startswith(codecs.BOM_UTF8) and not content.startswith(codecs.BOM_UTF8):
            content = codecs.BOM_UTF8 + content
    return before, content
