"""A tool of an MCP server as the loop sees one."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from typing import Any

from envelope.events import WarningRaised

from ..tools.base import Target, Tool, ToolContext, ToolResult
from ..tools.errors import ToolError
from ..tools.schema import is_schema
from ..tools.truncate import truncate
from .connection import Connection, ListedTool
from .json_schema import safe_schema

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
        context.may_have_written = True  # it runs where the agent's commands run
        answer = await self._connection.call(self._listed.name, arguments)
        return ToolResult(str(truncate(text_of(answer))), title=self._listed.name, is_error=bool(answer.is_error))


def tool_name(server: str, tool: str) -> str:
    """
    >>> tool_name("docs", "search.pages"), tool_name("a-b", "ü x")
    ('docs_search_pages', 'a-b___x')
    """
    return re.sub(r"[^A-Za-z0-9_-]", "_", f"{server}_{tool}")[:MAX_NAME_CHARS]


def text_of(answer: Any) -> str:
    """What of a result a model can read; what it cannot is named."""
    parts = [_part(block) for block in answer.content]
    return "\n".join(parts) or "(no output)"


def _part(block: Any) -> str:
    match block.type:
        case "text":
            return block.text
        case "resource" if getattr(block.resource, "text", None) is not None:
            return block.resource.text
        case "resource_link":
            return f"({block.name}: {block.uri})"
        case kind:
            return f"({kind} left out: it is no text)"


async def offered_by(connections: Sequence[Connection], warn: Any) -> list[Tool]:
    """The tools of all servers, listed at the same time. A server that does not answer is a warning, and has none."""
    listed = await asyncio.gather(*(_tools_of(connection, warn) for connection in connections))
    return [tool for tools in listed for tool in tools]


async def _tools_of(connection: Connection, warn: Any) -> list[Tool]:
    try:
        tools = [McpTool(connection, listed) for listed in await connection.tools()]
    except ToolError as error:
        warn(WarningRaised(message=str(error), hint=f"look at the settings of mcp.{connection.name}"))
        return []
    return [*{tool.name: tool for tool in tools}.values()]
