"""The two ways to a server: a process in the task's sandbox, or HTTP through the egress proxy."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any, Protocol

from envelope.tracing.spans import variables
from sandbox.base import WORKSPACE, Sandbox
from sandbox.errors import SandboxError

from ..web.access import WithOwn
from .headers import resolved
from .settings import McpServer
from .stdio import streams_of


class Way(Protocol):
    @property
    def place(self) -> str:
        """The server for people: its command line, or its address."""
        ...

    @property
    def is_local(self) -> bool:
        """Does it run where the agent's commands run, and can change the same files?"""
        ...

    def streams(self, ended: asyncio.Event) -> AbstractAsyncContextManager[Any]:
        """What the library's client speaks through; `ended` is set when the server ends by itself."""
        ...

    async def check(self) -> None:
        """After a fault: raises what was no fault of the server, a lost sandbox."""
        ...


@dataclass(frozen=True, slots=True)
class Local:
    server: McpServer
    sandbox: Callable[[], Awaitable[Sandbox]]
    is_local: bool = True

    @property
    def place(self) -> str:
        return f"`{' '.join(self.server.command)}`"

    @asynccontextmanager
    async def streams(self, ended: asyncio.Event) -> AsyncGenerator[Any]:
        opened, server = await self.sandbox(), self.server
        env = {**server.environment, **variables()}
        service = await opened.start(server.command, cwd=server.cwd or WORKSPACE, env=env)
        try:
            async with streams_of(service, ended) as streams:
                yield streams
        finally:
            with suppress(SandboxError):  # it is gone with its sandbox
                await service.stop()

    async def check(self) -> None:
        await (await self.sandbox()).stat("/")


@dataclass(frozen=True, slots=True)
class Remote:
    server: McpServer
    is_local: bool = False

    @property
    def place(self) -> str:
        return self.server.url.partition("?")[0]  # some write a key behind it

    @asynccontextmanager
    async def streams(self, ended: asyncio.Event) -> AsyncGenerator[Any]:
        from .http import streams_over_http

        server = self.server
        headers = resolved(server.headers, os.environ)
        async with streams_over_http(server.url, headers, WithOwn(server.private_addresses)) as streams:
            yield streams

    async def check(self) -> None:
        pass


def way_to(server: McpServer, sandbox: Callable[[], Awaitable[Sandbox]]) -> Way:
    return Remote(server) if server.url else Local(server, sandbox)
