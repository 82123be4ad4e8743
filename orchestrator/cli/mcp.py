"""`muster mcp`: this machine's fleet, for a coding agent or an editor that starts this command."""

from __future__ import annotations

import asyncio
from importlib.util import find_spec
from typing import Annotated

import typer

from ..api.tokens import Role
from ..errors import BadInput
from .options import ReadOnly, settings_for

INSTALL = "install it with: pip install 'muster[mcp]'"


def mcp(
    role: Annotated[
        Role, typer.Option(help="What the client may do; an approver or admin answers what tasks ask.")
    ] = Role.SUBMITTER,
    read_only: ReadOnly = False,
) -> None:
    """Serve the Model Context Protocol on standard input and output, until the client ends.

    It starts this machine's fleet at the first call that needs it. Over HTTP `muster serve` does the same at /mcp.
    """
    if find_spec("mcp") is None:
        raise BadInput("the library of the Model Context Protocol is not installed", hint=INSTALL)
    from ..mcp.stdio import serve_stdio  # it takes longer to load than a command may
    from .mcp_here import Here

    async def serve() -> None:
        async with Here(settings_for(read_only=read_only), role) as here:
            await serve_stdio(here)

    asyncio.run(serve())
