"""The MCP servers of one attempt: started for those that its scope reaches, and ended with it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager

from envelope.events import Event
from envelope.pattern import match
from envelope.scope import Scope, split
from sandbox.base import Sandbox

from ..tools.base import Tool
from .connection import Connection
from .settings import McpServers
from .tools import offered_by


@asynccontextmanager
async def mcp_tools(
    servers: McpServers, scope: Scope, sandbox: Callable[[], Awaitable[Sandbox]], emit: Callable[[Event], None]
) -> AsyncGenerator[list[Tool]]:
    """The tools of every server for which there is a grant. What is wrong with one is told, and the task goes on."""
    reached = [(name, server) for name, server in servers.enabled.items() if is_reached(name, scope)]
    connections = [Connection(name, server, sandbox) for name, server in reached]
    try:
        yield await offered_by(connections, emit)
    finally:
        await asyncio.gather(*(connection.close() for connection in connections), return_exceptions=True)


def is_reached(server: str, scope: Scope) -> bool:
    """Is there a grant for a tool of this server?

    >>> is_reached("docs", ("read:**", "docs_search:*")), is_reached("docs", ("*:*",)), is_reached("docs", ("doc*:x",))
    (True, True, True)
    >>> is_reached("docs", ("read:**", "bash:docs_search"))
    False
    """
    prefix = f"{server}_"
    return any(tool.startswith(prefix) or match(tool, f"{prefix}*") for tool, _ in map(split, scope))
