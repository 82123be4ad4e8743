"""`edit`: replace a piece of a file."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from repo.fairness import beside

from .base import Target, ToolContext, ToolResult
from .diff import diff_of, shown_diff, told_diff
from .errors import ToolError
from .files import decoded, encoded, load_if_there, require_seen, store
from .paths import absolute, path_targets, relative
from .replace import IDENTICAL, edited
from .replace import apply_edit as apply_edit
from .schema import flag, parameters, text


class Edit:
    name = "edit"
    description = (
        "Replace text in a file. oldString must be exactly what stands in the file, whole (no `...` for lines that are"
        " left out) and without the line numbers that `read` prints, and occur once; otherwise set replaceAll. Read the"
        " file first. An empty oldString makes a new file of newString. Indentation and line endings of the file are"
        " kept."
    )
    parameters = parameters(
        ["filePath", "oldString", "newString"],
        filePath=text("absolute path of the file"),
        oldString=text("the text to replace"),
        newString=text("what to put in its place"),
        replaceAll=flag("replace every occurrence (default false)"),
    )

    def targets(self, arguments: Mapping[str, Any]) -> list[Target]:
        return path_targets("edit", arguments["filePath"])

    def title(self, arguments: Mapping[str, Any]) -> str:
        return relative(arguments["filePath"])

    async def preview(self, context: ToolContext, arguments: Mapping[str, Any]) -> str:
        before, after, _ = await _change(context, arguments)
        return await shown_diff({absolute(arguments["filePath"]): (before, after)})

    async def run(self, context: ToolContext, call_id: str, arguments: Mapping[str, Any]) -> ToolResult:
        path = absolute(arguments["filePath"])
        before, after, is_exact = await _change(context, arguments)
        await store(context, path, after)
        changes = {path: (before, after)}
        told = f"{'Created' if before is None else 'Edited'} {path}."
        if not is_exact:
            told += f" oldString is not in it as you wrote it; this was taken to be meant:\n{await told_diff(changes)}"
        return ToolResult(told, self.title(arguments), metadata=await diff_of(changes))


async def _change(context: ToolContext, arguments: Mapping[str, Any]) -> tuple[bytes | None, bytes, bool]:
    """What the file holds, what it would hold, and whether `oldString` stands in it as it is written."""
    path, old, new = absolute(arguments["filePath"]), arguments["oldString"], arguments["newString"]
    if old == new:
        raise ToolError(IDENTICAL)
    before = await load_if_there(await context.sandbox(), path)
    if before is None and old:
        raise ToolError(f"{path} does not exist; to create it, leave oldString empty")
    if before is None:
        return None, encoded(path, new), True
    require_seen(context, path, before)
    # in a thread: a text that resembles itself everywhere can take seconds
    is_everywhere = bool(arguments.get("replaceAll"))
    done = await beside.run(context.tenant, partial(edited, decoded(path, before), old, new, replace_all=is_everywhere))
    return before, encoded(path, done.text), done.is_exact
