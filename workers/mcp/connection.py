"""One MCP server of one task: started at the first use, started again when it has died."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from sandbox.base import WORKSPACE, Sandbox
from sandbox.errors import SandboxError, SandboxLost

from ..tools.errors import ToolError
from .settings import McpServer
from .stdio import streams_of

# Longer lists are mistakes, and a model cannot choose among more.
MAX_TOOLS = 128
# A server may send few at a time, but must come to an end.
MAX_PAGES = 32


@dataclass(frozen=True, slots=True)
class ListedTool:
    name: str
    description: str
    parameters: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class _Running:
    """A live client, in a task of its own: the library wants to be left where it was entered. `leave` is also set when
    the server ends by itself."""

    client: Any
    leave: asyncio.Event
    task: asyncio.Task[None]


class Connection:
    """What goes wrong with a server is a `ToolError` that names it; a lost sandbox is raised as that."""

    def __init__(self, name: str, server: McpServer, sandbox: Callable[[], Awaitable[Sandbox]]) -> None:
        self.name = name
        self._server = server
        self._sandbox = sandbox
        self._running: _Running | None = None
        self._starting = asyncio.Lock()

    async def tools(self) -> list[ListedTool]:
        listed: list[ListedTool] = []
        cursor: str | None = None
        for _ in range(MAX_PAGES):
            page = await self._ask(lambda client, at=cursor: client.list_tools(cursor=at))
            listed += [ListedTool(tool.name, tool.description or "", tool.input_schema) for tool in page.tools]
            cursor = page.next_cursor
            if not cursor or len(listed) >= MAX_TOOLS:
                break
        return listed[:MAX_TOOLS]

    async def call(self, tool: str, arguments: Mapping[str, Any]) -> Any:
        """The library's result. A tool's own failure is a result, too."""
        return await self._ask(lambda client: client.call_tool(tool, dict(arguments)))

    async def close(self) -> None:
        running, self._running = self._running, None
        if running is not None:
            running.leave.set()
            await asyncio.gather(running.task, return_exceptions=True)

    async def _ask(self, question: Callable[[Any], Awaitable[Any]]) -> Any:
        """A server that has died since the last question is started again; one that dies of the question is not."""
        from mcp.shared.exceptions import MCPError

        client = await self._client()
        try:
            async with asyncio.timeout(self._server.timeout_s):
                return await question(client)
        except TimeoutError as error:
            fault, why = error, f"did not answer within {self._server.timeout_s:g} s"
        except MCPError as error:
            fault, why = error, f"says: {error}"
        # the library raises its own and anyio's, and a server's reply may fit none of its models: none of it is ours
        except Exception as error:
            fault, why = error, f"failed: {error!r}"
        await (await self._sandbox()).stat("/")  # a sandbox that is gone is no fault of the server
        raise ToolError(f"the MCP server {self.name} {why}") from fault

    async def _client(self) -> Any:
        async with self._starting:
            running = self._running
            if running is not None and running.leave.is_set():  # its server has ended
                await asyncio.gather(running.task, return_exceptions=True)
                running = None
            self._running = running or await self._start()
            return self._running.client

    async def _start(self) -> _Running:
        sandbox = await self._sandbox()
        ready: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        leave = asyncio.Event()
        task = asyncio.create_task(self._serve(sandbox, ready, leave))
        try:
            async with asyncio.timeout(self._server.timeout_s):
                await asyncio.wait({task, ready}, return_when=asyncio.FIRST_COMPLETED)
        except TimeoutError:
            pass
        if ready.done():
            return _Running(ready.result(), leave, task)
        task.cancel()
        [ended] = await asyncio.gather(task, return_exceptions=True)
        if isinstance(ended, SandboxLost):
            raise ended
        why = f"{ended}" if isinstance(ended, SandboxError) else f"`{' '.join(self._server.command)}` did not greet us"
        raise ToolError(f"the MCP server {self.name} could not be started: {why}")

    async def _serve(self, sandbox: Sandbox, ready: asyncio.Future[Any], leave: asyncio.Event) -> None:
        """Enters and leaves the client; ends by itself when the server has."""
        from mcp import Client

        env = self._server.environment
        service = await sandbox.start(self._server.command, cwd=self._server.cwd or WORKSPACE, env=env)
        try:
            async with Client(
                streams_of(service, leave), read_timeout_seconds=self._server.timeout_s, cache=None
            ) as client:
                ready.set_result(client)
                await leave.wait()
        finally:
            with suppress(SandboxError):  # it is gone with its sandbox
                await service.stop()
