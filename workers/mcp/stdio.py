"""MCP over standard input and output of a process in the sandbox: one JSON-RPC message a line."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from sandbox.base import MIB, Service
from sandbox.errors import SandboxError

from ..duck import Splitter, is_light

# A longer line is no message that a model could use; it is the end of a server that floods.
MAX_LINE_BYTES = 8 * MIB
# Values in one message: the longest list of tools has a tenth of them, and millions hold this process for seconds.
MAX_VALUES = 100_000


@asynccontextmanager
async def streams_of(service: Service, ended: asyncio.Event) -> AsyncGenerator[Any]:
    """The pair of streams that the library's client speaks through. `ended` is set when the service's side closes."""
    import anyio
    from mcp.shared.message import SessionMessage

    to_client, from_server = anyio.create_memory_object_stream[Any](0)
    to_server, from_client = anyio.create_memory_object_stream[SessionMessage](0)

    async def hear() -> None:
        async with to_client:
            splitter = Splitter()
            while data := await service.receive():
                lines = splitter.take(data)
                if max(map(len, (splitter.rest, *lines))) > MAX_LINE_BYTES:
                    break
                for line in lines:
                    if line.strip():
                        await to_client.send(_parsed(line))
        ended.set()

    async def speak() -> None:
        async with from_client:
            async for message in from_client:
                await service.send(message.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n")

    moving = [asyncio.create_task(_until_closed(hear())), asyncio.create_task(_until_closed(speak()))]
    try:
        yield from_server, to_server
    finally:
        for task in moving:
            task.cancel()
        await asyncio.gather(*moving, return_exceptions=True)
        for stream in (to_client, from_server, to_server, from_client):
            stream.close()


async def _until_closed(moving: Any) -> None:
    """A sandbox that is gone, or a client that has left, ends the conversation; the next call says so."""
    import anyio

    try:
        await moving
    except (SandboxError, anyio.ClosedResourceError, anyio.BrokenResourceError):
        return


def _parsed(line: bytes) -> Any:
    """A message, or what is wrong with the line: servers print other things, too."""
    from mcp.shared.message import SessionMessage
    from mcp_types.jsonrpc import jsonrpc_message_adapter

    if not is_light(line, MAX_VALUES):
        return ValueError(f"a message has more than {MAX_VALUES} values")
    try:
        return SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
    except ValueError as error:
        return error
