"""The MCP servers of one attempt: started for those that its scope reaches, and ended with it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial

from envelope.events import Event, WarningRaised
from envelope.pattern import match
from envelope.scope import Scope, split
from repo.fairness import beside
from sandbox.base import Sandbox

from ..permissions.guard import UNSCOPED
from ..tools.base import Tool
from ..tools.errors import ToolError
from .connection import Connection
from .listing import ListedTool
from .prompts import ServerPrompt, prompts_of
from .resources import resource_tools
from .settings import McpServer
from .tools import McpTool
from .ways import way_to

# Of processor time for all schemas of a server.
MAX_CHECKS_S = 5.0


@dataclass(slots=True)
class McpHub:
    """What its servers have. A server that does not answer is a warning, and has nothing (more)."""

    connections: Sequence[Connection]
    emit: Callable[[Event], None]
    _listed: dict[str, list[Tool]] = field(default_factory=dict[str, list[Tool]])
    _readable: list[Tool] | None = None

    async def tools(self) -> Sequence[Tool]:
        """As they are now: servers that told of a change are asked again."""
        asked = [one for one in self.connections if one.news.is_set() or one.name not in self._listed]
        await asyncio.gather(*(self._list(connection) for connection in asked))
        if self._readable is None:
            self._readable = resource_tools([one for one in self.connections if one.offers("resources")])
        listed = (tool for connection in self.connections for tool in self._listed[connection.name])
        return [*{tool.name: tool for tool in (*self._readable, *listed)}.values()]

    async def prompts(self) -> Sequence[ServerPrompt]:
        found = await asyncio.gather(*(self._prompts(connection) for connection in self.connections))
        return [prompt for prompts in found for prompt in prompts]

    async def close(self) -> None:
        await asyncio.gather(*(connection.close() for connection in self.connections), return_exceptions=True)

    async def _list(self, connection: Connection) -> None:
        self._listed.setdefault(connection.name, [])
        try:
            listed = await connection.tools()
            # A hundred large schemas take seconds to be checked. Whose are long to check waits for himself.
            found = await beside.run(connection.name, partial(_tools_of, connection, listed))
            self._listed[connection.name] = [tool for tool in found if tool.name not in UNSCOPED]
            if len(self._listed[connection.name]) < len(found):
                names = ", ".join(sorted(tool.name for tool in found if tool.name in UNSCOPED))
                self._warn(connection, ToolError(f"a tool of {connection.name} cannot be called {names}"))
        except ToolError as error:
            self._warn(connection, error)

    async def _prompts(self, connection: Connection) -> list[ServerPrompt]:
        if not connection.offers("prompts"):
            return []
        try:
            return await prompts_of(connection)
        except ToolError as error:
            self._warn(connection, error)
            return []

    def _warn(self, connection: Connection, error: ToolError) -> None:
        hint = f"look at the settings of mcp.{connection.name}"
        self.emit(WarningRaised(message=str(error), hint=hint))


@asynccontextmanager
async def mcp_servers(
    servers: Mapping[str, McpServer],
    scope: Scope,
    sandbox: Callable[[], Awaitable[Sandbox]],
    emit: Callable[[Event], None],
) -> AsyncGenerator[McpHub]:
    """Those of the servers for which there is a grant. What is wrong with one is told, and the task goes on."""
    reached = [(name, server) for name, server in servers.items() if is_reached(name, scope)]
    hub = McpHub([Connection(name, way_to(server, sandbox), server.timeout_s, emit) for name, server in reached], emit)
    try:
        yield hub
    finally:
        await hub.close()


def is_reached(server: str, scope: Scope) -> bool:
    """Is there a grant for a tool of this server?

    >>> is_reached("docs", ("read:**", "docs_search:*")), is_reached("docs", ("*:*",)), is_reached("docs", ("doc*:x",))
    (True, True, True)
    >>> is_reached("docs", ("read:**", "bash:docs_search"))
    False
    """
    return names_tool_of(server, (tool for tool, _ in map(split, scope)))


def names_tool_of(server: str, names: Iterable[str]) -> bool:
    """May one of the names, or patterns for names, be that of a tool of this server?"""
    prefix = f"{server}_"
    return any(name.startswith(prefix) or match(name, f"{prefix}*") for name in names)


def _tools_of(connection: Connection, listed: Sequence[ListedTool]) -> list[Tool]:
    """Those whose schemas there was no time to check take any object."""
    ends_s = time.thread_time() + MAX_CHECKS_S
    return [
        McpTool(connection, each if time.thread_time() < ends_s else replace(each, parameters={})) for each in listed
    ]
