"""On standard input and output: for one client on this machine, with its user's own fleet."""

from __future__ import annotations

from typing import Any

from mcp.server.stdio import stdio_server

from .server import server_for
from .tool import Front


async def serve_stdio(front: Front) -> None:
    """Until the client closes its side."""
    server: Any = server_for(front)
    async with stdio_server() as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())
