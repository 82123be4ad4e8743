"""What servers hold to be read: three tools for all servers together, governed by `read`."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any
from urllib.parse import unquote

from ..project.framing import one_line
from ..tools.base import Target, Tool, ToolContext, ToolResult
from ..tools.errors import ToolError
from ..tools.schema import parameters, text
from .connection import Connection
from .text import content_of, fitted

MAX_DECODED = 3  # times: more is no URI that anybody writes
_SEPARATORS = re.compile(r"[/\\?#;]")
MAX_DESCRIPTION_CHARS = 300  # a list is for choosing
SERVER = text("the name of the server; left out: all of them")

List = Callable[[Connection], Awaitable[list[Any]]]


class _ListTool:
    def __init__(
        self, name: str, what: str, find: List, uri_of: Callable[[Any], str], servers: Mapping[str, Connection]
    ) -> None:
        self.name = name
        self.description = f"List the {what} of MCP servers: URI, name, type and description, one a line."
        self.parameters = parameters([], server=SERVER)
        self._what, self._find, self._uri_of, self._servers = what, find, uri_of, servers

    def targets(self, arguments: Mapping[str, Any]) -> list[Target]:
        return [_target(server) for server in self._asked(arguments)]

    def title(self, arguments: Mapping[str, Any]) -> str:
        return ", ".join(self._asked(arguments))

    async def run(self, context: ToolContext, call_id: str, arguments: Mapping[str, Any]) -> ToolResult:
        parts = await asyncio.gather(*(self._listed(_named(self._servers, name)) for name in self._asked(arguments)))
        return ToolResult(await fitted(context, call_id, "\n".join(parts)), title=self.title(arguments))

    async def _listed(self, server: Connection) -> str:
        try:
            found = await self._find(server)
        except ToolError as error:  # the others may still answer
            return f"{server.name}: {error}"
        lines = [self._line(item) for item in found]
        return "\n".join([f"{server.name}:", *(lines or [f"(no {self._what})"])])

    def _line(self, item: Any) -> str:
        told = (self._uri_of(item), item.name, item.mime_type, (item.description or "")[:MAX_DESCRIPTION_CHARS])
        return one_line("  ".join(filter(None, told)))

    def _asked(self, arguments: Mapping[str, Any]) -> list[str]:
        return [arguments["server"]] if arguments.get("server") else [*self._servers]


class ReadMcpResource:
    name = "read_mcp_resource"
    description = "Read a resource of an MCP server by its URI, as list_mcp_resources names it or a template makes it."
    parameters = parameters(["server", "uri"], server=text("the name of the server"), uri=text("the resource's URI"))

    def __init__(self, servers: Mapping[str, Connection]) -> None:
        self._servers = servers

    def targets(self, arguments: Mapping[str, Any]) -> list[Target]:
        _require_plain(arguments["uri"])
        return [_target(arguments["server"], arguments["uri"])]

    def title(self, arguments: Mapping[str, Any]) -> str:
        return arguments["uri"]

    async def run(self, context: ToolContext, call_id: str, arguments: Mapping[str, Any]) -> ToolResult:
        answer = await _named(self._servers, arguments["server"]).read(arguments["uri"])
        return ToolResult(await content_of(context, call_id, answer.contents), title=arguments["uri"])


def resource_tools(servers: Sequence[Connection]) -> list[Tool]:
    """Nothing where no server has resources."""
    if not servers:
        return []
    named = {server.name: server for server in servers}
    return [
        _ListTool("list_mcp_resources", "resources", Connection.resources, lambda found: found.uri, named),
        _ListTool(
            "list_mcp_resource_templates",
            "templates of resources",
            Connection.resource_templates,
            lambda found: found.uri_template,
            named,
        ),
        ReadMcpResource(named),
    ]


def _named(servers: Mapping[str, Connection], name: str) -> Connection:
    if name not in servers:
        raise ToolError(f"there is no MCP server {name!r} with resources; there are: {', '.join(servers)}")
    return servers[name]


def _require_plain(uri: str) -> None:
    """`ToolError` for a URI that a server may take for another than rules and grants see.

    >>> _require_plain("file:///public/a..b?x=%2F")
    """
    read = uri
    for _ in range(MAX_DECODED):
        read, before = unquote(read), read
        if read == before:
            break
    else:
        raise ToolError("the URI is encoded again and again; name it plainly")
    if {".", ".."} & set(_SEPARATORS.split(read)):
        raise ToolError("the URI has a step such as .. in it; name the resource itself")


def _target(server: str, uri: str = "") -> Target:
    """As rules and grants see it: `read:mcp:docs/*` is all of one server's."""
    return Target("read", f"mcp:{server}/{uri}")
