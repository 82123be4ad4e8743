"""One MCP server of one task: started at the first use, and once more when it has died."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from envelope.events import Event, WarningRaised
from sandbox.errors import SandboxError, SandboxLost

from ..tools.errors import ToolError
from .listing import MAX_RESOURCES, MAX_TOOLS, ListedTool, listed_tools, walk
from .ways import Way

# One that dies again dies of what it is asked; each start costs the task its time-out.
MAX_RESTARTS = 1


@dataclass(frozen=True, slots=True)
class _Running:
    """A live client, in a task of its own: the library wants to be left where it was entered. `leave` is also set when
    the server ends by itself."""

    client: Any
    leave: asyncio.Event
    task: asyncio.Task[None]


@dataclass(slots=True, eq=False)
class Connection:
    """What goes wrong with a server is a `ToolError` that names it; a lost sandbox is raised as that.

    `news`: the server says that its tools are others by now.
    """

    name: str
    way: Way
    timeout_s: float
    emit: Callable[[Event], None]
    news: asyncio.Event = field(default_factory=asyncio.Event)
    _running: _Running | None = None
    _starts: int = 0
    _starting: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def tools(self) -> list[ListedTool]:
        self.news.clear()  # what changes from here on is news again
        found = await self._ask(lambda client: walk(client.list_tools, "tools", MAX_TOOLS))
        return listed_tools(found)

    async def call(self, tool: str, arguments: Mapping[str, Any]) -> Any:
        """The library's result. A tool's own failure is a result, too."""
        return await self._ask(lambda client: client.call_tool(tool, dict(arguments)))

    def offers(self, capability: str) -> bool:
        """Has the server `resources`, or `prompts`? One that does not run has nothing."""
        running = self._running
        return running is not None and getattr(running.client.server_capabilities, capability) is not None

    async def resources(self) -> list[Any]:
        return await self._ask(lambda client: walk(client.list_resources, "resources", MAX_RESOURCES))

    async def resource_templates(self) -> list[Any]:
        return await self._ask(lambda client: walk(client.list_resource_templates, "resource_templates", MAX_RESOURCES))

    async def read(self, uri: str) -> Any:
        return await self._ask(lambda client: client.read_resource(uri))

    async def prompts(self) -> list[Any]:
        return await self._ask(lambda client: walk(client.list_prompts, "prompts", MAX_TOOLS))

    async def prompt(self, name: str, arguments: Mapping[str, str]) -> Any:
        return await self._ask(lambda client: client.get_prompt(name, dict(arguments)))

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
            async with asyncio.timeout(self.timeout_s):
                return await question(client)
        except TimeoutError as error:
            fault, why = error, f"did not answer within {self.timeout_s:g} s"
        except MCPError as error:
            fault, why = error, f"says: {error.message}"
            self._note_end(error)
        # the library raises its own and anyio's, and a server's reply may fit none of its models: none of it is ours
        except Exception as error:
            fault, why = error, f"failed: {error!r}"
        await self.way.check()
        raise ToolError(f"the MCP server {self.name} {why}") from fault

    def _note_end(self, error: Any) -> None:
        """Over HTTP nobody sees a server end: it does not answer, or knows nothing of us any more."""
        from mcp_types import CONNECTION_CLOSED

        if self._running is not None and (error.code == CONNECTION_CLOSED or error.message == "Session terminated"):
            self._running.leave.set()

    async def _client(self) -> Any:
        async with self._starting:
            if self._running is not None and self._running.leave.is_set():  # its server has ended
                await asyncio.gather(self._running.task, return_exceptions=True)
                self._running = None
            self._running = self._running or await self._started()
            return self._running.client

    async def _started(self) -> _Running:
        """Started for the first time, or once more; people hear of the end of a server once, and of that of hope."""
        if self._starts == 1 + MAX_RESTARTS:
            self._starts += 1
            self._warn("has ended again: its tools cannot be used any more")
        if self._starts > MAX_RESTARTS:
            raise ToolError(f"the MCP server {self.name} has ended again, and is not started any more")
        if self._starts:
            self._warn("has ended: it is started once more")
        self._starts += 1
        return await self._start()

    def _warn(self, what: str) -> None:
        self.emit(WarningRaised(message=f"the MCP server {self.name} {what}"))

    async def _start(self) -> _Running:
        ready: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        leave = asyncio.Event()
        task = asyncio.create_task(self._serve(ready, leave))
        try:
            async with asyncio.timeout(self.timeout_s):
                await asyncio.wait({task, ready}, return_when=asyncio.FIRST_COMPLETED)
        except TimeoutError:
            pass
        if ready.done():
            return _Running(ready.result(), leave, task)
        task.cancel()
        [ended] = await asyncio.gather(task, return_exceptions=True)
        if isinstance(ended, SandboxLost):
            raise ended
        raise ToolError(f"the MCP server {self.name} could not be started: {self._reason(ended)}")

    def _reason(self, ended: BaseException | None) -> str:
        from mcp.shared.exceptions import MCPError

        match ended:
            case BaseExceptionGroup():  # the library's tasks, each inside another
                return self._reason(ended.exceptions[0])
            case SandboxError() | ToolError():
                return f"{ended}"
            case MCPError() if not self.way.is_local:  # of a process it is that its output ended
                return f"{self.way.place} says: {ended.message}"
            case _:
                return f"{self.way.place} did not greet us"

    async def _serve(self, ready: asyncio.Future[Any], leave: asyncio.Event) -> None:
        """Enters and leaves the client; ends by itself when the server has."""
        from mcp import Client

        streams = self.way.streams(leave)
        try:
            async with Client(
                streams, read_timeout_seconds=self.timeout_s, cache=None, message_handler=self._hear
            ) as client:
                ready.set_result(client)
                listening = asyncio.create_task(self._listen(client))
                try:
                    await leave.wait()
                finally:
                    listening.cancel()
                    await asyncio.gather(listening, return_exceptions=True)
        finally:
            leave.set()

    async def _listen(self, client: Any) -> None:
        """Newer servers tell of changes only those who ask to be told; older ones do so unasked (see `_hear`)."""
        from mcp.client.subscriptions import ListenNotSupportedError, SubscriptionLost
        from mcp.shared.exceptions import MCPError

        tools = client.server_capabilities.tools
        if tools is None or not tools.list_changed:
            return
        with suppress(ListenNotSupportedError, SubscriptionLost, MCPError, TimeoutError):
            async with client.listen(tools_list_changed=True) as changes:
                async for _ in changes:
                    self.news.set()

    async def _hear(self, message: Any) -> None:
        from mcp_types import ToolListChangedNotification

        if isinstance(message, ToolListChangedNotification):
            self.news.set()
