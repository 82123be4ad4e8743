"""The way out of a sandbox whose engine cannot mount the egress proxy's socket: connections travel in the stream."""

from __future__ import annotations

import asyncio
import socket
from contextlib import AsyncExitStack, suppress
from pathlib import Path

from ..channel import Channel
from ..egress import CA_NAME, CHUNK_BYTES, MAX_CONNECTIONS, EgressProxy, copy_ca_bundle, proxy_environment
from ..errors import SandboxError
from ..service import PATIENCE_S, ServiceClient
from ..tools import ToolClient

CA_FOLDER = "/tmp/muster-ca"  # noqa: S108 - inside, where it is a file system of its own


async def open_exits(
    proxy: EgressProxy, folder: Path, channel: Channel, ca_bundle: Path | None, undo: AsyncExitStack
) -> dict[str, str]:
    """What a command needs in its environment to find the proxy. `folder` is this host's, and the sandbox's own."""
    undo.push_async_callback(proxy.close)
    tools = ToolClient(channel, {})
    has_bundle = copy_ca_bundle(ca_bundle, folder)
    if has_bundle:
        await tools.write(f"{CA_FOLDER}/{CA_NAME}", (folder / CA_NAME).read_bytes(), mode=0o444)
    port = await tools.relay("")
    serving = asyncio.create_task(_serve(channel, proxy))
    undo.push_async_callback(_end, serving)
    return proxy_environment(port, CA_FOLDER if has_bundle else None)


async def _serve(channel: Channel, proxy: EgressProxy) -> None:
    """Until the sandbox is gone, or this is cancelled. Who connects while too many do waits in the listener's queue."""
    slots = asyncio.Semaphore(MAX_CONNECTIONS)
    with suppress(SandboxError):
        async with asyncio.TaskGroup() as connections:
            while True:
                await slots.acquire()
                connection = await ServiceClient.of("accept", channel, timeout_s=PATIENCE_S)
                serving = connections.create_task(_pass_on(connection, proxy))
                serving.add_done_callback(lambda _: slots.release())


async def _pass_on(connection: ServiceClient, proxy: EgressProxy) -> None:
    near, far = socket.socketpair()
    await proxy.adopt(far)
    reader, writer = await asyncio.open_unix_connection(sock=near)
    out = asyncio.create_task(_outwards(connection, writer))
    try:
        while data := await reader.read(CHUNK_BYTES):
            await connection.send(data)
    except (SandboxError, OSError):
        pass  # either side went away; nobody is left to be told
    finally:
        with suppress(SandboxError):
            await connection.stop()
        out.cancel()
        await asyncio.gather(out, return_exceptions=True)
        writer.close()


async def _outwards(connection: ServiceClient, writer: asyncio.StreamWriter) -> None:
    with suppress(SandboxError, OSError):
        while data := await connection.receive():
            writer.write(data)
            await writer.drain()
        writer.write_eof()


async def _end(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
