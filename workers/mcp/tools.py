"""A tool of an MCP server as the loop sees one."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ..tools.base import Target, ToolContext, ToolResult
from ..tools.schema import is_schema
from .connection import Connection
from .json_schema import safe_schema
from .listing import ListedTool
from .text import fitted, text_of

# Providers take no longer names.
MAX_NAME_CHARS = 64
# Enough to say what a tool is for; a server's whole manual in each request is money.
MAX_DESCRIPTION_CHARS = 4096


class McpTool:
    def __init__(self, connection: Connection, listed: ListedTool) -> None:
        self.name = tool_name(connection.name, listed.name)
        self.description = (
            listed.description[:MAX_DESCRIPTION_CHARS] or f"{listed.name} of the server {connection.name}"
        )
        parameters = safe_schema(listed.parameters)
        self.parameters = parameters if is_schema(parameters) else {"type": "object"}
        self._connection = connection
        self._listed = listed

    def targets(self, arguments: Mapping[str, Any]) -> list[Target]:
        return [Target(self.name, "*")]

    def title(self, arguments: Mapping[str, Any]) -> str:
        return self._listed.name

    async def run(self, context: ToolContext, call_id: str, arguments: Mapping[str, Any]) -> ToolResult:
        if self._connection.way.is_local:
            context.may_have_written = True
        answer = await self._connection.call(self._listed.name, arguments)
        content = await fitted(context, call_id, text_of(answer.content) or "(no output)")
        return ToolResult(content, title=self._listed.name, is_error=bool(answer.is_error))


def tool_name(server: str, tool: str) -> str:
    """
    >>> tool_name("docs", "search.pages"), tool_name("a-b", "ü x")
    ('docs_search_pages', 'a-b___x')
    """
    return re.sub(r"[^A-Za-z0-9_-]", "_", f"{server}_{tool}")[:MAX_NAME_CHARS]
