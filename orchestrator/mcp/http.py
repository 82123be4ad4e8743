"""Over HTTP: each request stands for itself, as the protocol has it since 2026, and for older clients, too."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

from .server import server_for
from .tool import Front


class OverHttp:
    """An ASGI application for POST alone. Who calls is the front's business; it finds the request with each call."""

    def __init__(self, front: Front) -> None:
        self._manager = StreamableHTTPSessionManager(server_for(front), stateless=True)

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """It serves within this, once."""
        async with self._manager.run():
            yield

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await self._manager.handle_request(scope, receive, send)
