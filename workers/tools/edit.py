"""`edit`: replace a piece of a file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .base import Target, ToolContext, ToolResult
from .errors import ToolError
from .files import load_if_there, require_seen, store
from .paths import absolute, path_targets, relative
from .replace import EditRefused, apply_edit
from .schema import flag, parameters, text


class Edit:
    name = "edit"
    description = (
        "Replace text in a file. oldString must be exactly what stands in the file, without the line numbers that"
        " `read` prints, and occur once; otherwise set replaceAll. Read the file first. An empty oldString makes a new"
        " file of newString. Indentation and line endings of the file are kept."
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

    async def run(self, context: ToolContext, call_id: str, arguments: Mapping[str, Any]) -> ToolResult:
        path, old, new = absolute(arguments["filePath"]), arguments["oldString"], arguments["newString"]
        before = await load_if_there(await context.sandbox(), path)
        if before is None and old:
            raise ToolError(f"{path} does not exist; to create it, leave oldString empty")
        if before is None:
            await store(context, path, new.encode())
            return ToolResult(f"Created {path}.", title=self.title(arguments))
        require_seen(context, path, before)
        try:
            after = apply_edit(before.decode(), old, new, replace_all=bool(arguments.get("replaceAll")))
        except EditRefused as e:
            raise ToolError(str(e)) from e
        except UnicodeDecodeError as e:
            raise ToolError(f"{path} is not UTF-8 text; change it with bash") from e
        await store(context, path, after.encode())
        return ToolResult(f"Edited {path}.", title=self.title(arguments))
