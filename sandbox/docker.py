"""The Docker driver, and the dozen calls that it needs of the engine.

The only file that names the engine's client library. Every call is bounded in time, and raises `EngineUnavailable`,
`ImageMissing` or `SandboxError`.
"""

# The library types its parameters loosely; what leaves this file is checked again.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import asyncio
import os
import time
import uuid
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, Self

import aiodocker
import aiohttp
from aiodocker.stream import Stream

from .base import Capabilities, SandboxSpec
from .channel import Channel
from .container import EGRESS_FOLDER, Opening, container_config
from .egress import SOCKET_NAME, EgressProxy, copy_ca_bundle, proxy_environment
from .errors import EngineUnavailable, ImageMissing, SandboxError, SandboxLost
from .opened import OpenSandbox
from .reaper import Labelled, reap
from .tools import ToolClient
from .toolserver import install_server
from .workspace import create_workspace, remove_workspace

STARTS_PER_CORE = 2  # more at once are no faster (measured), only more unfair
START_TIMEOUT_S = 30.0
EXPIRY_GRACE_S = 60  # after its own timer should have ended it, anybody may remove it
CALL_TIMEOUT_S = 60.0  # an engine busy with 40 starts answers within 5 s
COMMIT_TIMEOUT_S = 600.0  # gigabytes of installed packages
NOT_FOUND, CONFLICT, UNREACHABLE = 404, 409, 900  # the last is the client library's own
STDERR = 2
MAX_COMPLAINT_BYTES = 2000
ENGINE_HINT = "start Docker, set DOCKER_HOST, or run `muster doctor`"


class AttachedStream:
    """Standard input and output of a container's PID 1, over a connection of its own.

    Its own, because an attached stream holds its connection for as long as the container lives, and the client
    library's pool is bounded. What PID 1 says on standard error is kept for error messages.
    """

    def __init__(self, client: aiodocker.Docker, stream: Stream) -> None:
        self._client = client
        self._stream = stream
        self.complaint = b""

    async def read(self) -> bytes:
        while True:
            try:
                message = await self._stream.read_out()
            except (aiohttp.ClientError, OSError):
                return b""
            if message is None:
                return b""
            if message.stream != STDERR:
                return message.data
            self.complaint = (self.complaint + message.data)[-MAX_COMPLAINT_BYTES:]

    async def write(self, data: bytes) -> None:
        try:
            await self._stream.write_in(data)
        except (AssertionError, aiohttp.ClientError) as error:  # the library asserts that it is still connected
            raise ConnectionResetError("the container's input is closed") from error

    async def close(self) -> None:
        with suppress(AssertionError, aiohttp.ClientError, OSError):  # as above: the other end may have closed first
            await self._stream.close()
        await self._client.close()


class Engine:
    def __init__(self) -> None:
        self._client: aiodocker.Docker | None = None

    async def create(self, name: str, config: Mapping[str, Any]) -> None:
        async with self._call() as client:
            await client.containers.create(dict(config), name=name)

    async def start(self, name: str) -> AttachedStream:
        """Attach first, so that no byte is missed."""
        async with self._call() as client:
            own = aiodocker.Docker(api_version=client.api_version)
            stream = own.containers.container(name).attach(stdin=True, stdout=True, stderr=True)
            attached = AttachedStream(own, stream)
            try:
                await stream.__aenter__()
                await client.containers.container(name).start()
            except BaseException:
                await attached.close()
                raise
            return attached

    async def remove(self, name: str) -> None:
        """Kill and remove a container, and wait until it is gone. One that is gone already is fine."""
        async with self._call(ignore=(NOT_FOUND,)) as client:
            container = client.containers.container(name)
            try:
                await container.delete(force=True, v=True)
            except aiodocker.DockerError as error:
                if error.status != CONFLICT:
                    raise
                await container.wait(condition="removed")  # it ended by itself, and the engine is at it

    async def remove_volume(self, name: str) -> None:
        async with self._call(ignore=(NOT_FOUND,)) as client:
            await (await client.volumes.get(name)).delete()

    async def mountpoint(self, volume: str) -> Path:
        """Where the engine keeps the volume mounted on its host."""
        async with self._call() as client:
            details: dict[str, Any] = await (await client.volumes.get(volume)).show()
            return Path(str(details["Mountpoint"]))

    async def containers(self, label: str) -> list[Labelled]:
        async with self._call() as client:
            found = await client.containers.list(all=True, filters={"label": [label]})
            return [Labelled(str(each["Names"][0]).lstrip("/"), each["Labels"]) for each in found if each["Names"]]

    async def volumes(self, label: str) -> list[Labelled]:
        async with self._call() as client:
            found: dict[str, Any] = await client.volumes.list(filters={"label": [label]})
            return [Labelled(str(each["Name"]), each["Labels"]) for each in found["Volumes"] or []]

    async def image_id(self, image: str) -> str | None:
        """None when the engine has no such image."""
        async with self._call(ignore=(NOT_FOUND,)) as client:
            return str((await client.images.inspect(image))["Id"])
        return None

    async def commit(self, name: str, image: str, config: Mapping[str, Any]) -> None:
        repository, _, tag = image.partition(":")
        async with self._call(timeout_s=COMMIT_TIMEOUT_S) as client:
            await client.containers.container(name).commit(repository=repository, tag=tag, config=dict(config))

    async def close(self) -> None:
        if self._client is not None:
            await self._client.close()
            self._client = None

    @asynccontextmanager
    async def _call(
        self, *, timeout_s: float = CALL_TIMEOUT_S, ignore: tuple[int, ...] = ()
    ) -> AsyncGenerator[aiodocker.Docker]:
        try:
            async with asyncio.timeout(timeout_s):
                yield self._connected()
        except aiodocker.DockerError as error:
            if error.status not in ignore:
                raise _translated(error) from error
        except (aiohttp.ClientError, OSError) as error:
            if isinstance(error, TimeoutError):
                raise EngineUnavailable(f"The Docker engine did not answer within {timeout_s:.0f} s.") from error
            raise EngineUnavailable(f"The Docker engine cannot be reached: {error}.", hint=ENGINE_HINT) from error

    def _connected(self) -> aiodocker.Docker:
        """On first use: inside the event loop. The library asks the engine for its version and speaks that."""
        if self._client is None:
            try:
                self._client = aiodocker.Docker()
            except (AssertionError, ValueError) as error:  # how it says that there is no socket
                raise EngineUnavailable("There is no Docker engine on this machine.", hint=ENGINE_HINT) from error
        return self._client


def _translated(error: aiodocker.DockerError) -> SandboxError:
    if error.status == UNREACHABLE:
        return EngineUnavailable("The Docker engine cannot be reached.", hint=ENGINE_HINT)
    if error.status == NOT_FOUND and "o such image" in error.message:
        return ImageMissing(f"The engine has no such image: {error.message}.", hint="run `muster sandbox build`")
    return SandboxError(f"The Docker engine refused: {error.message.strip()}.")


class DockerDriver:
    """Sandboxes as containers of the engine on this host. `async with` closes all that are still open.

    `state_dir` holds what the engine mounts, so the engine must see it under the same path. `owner` names this worker
    for `reap`; two that live at once need two names. `runtime` is an OCI runtime that the engine knows, such as runsc.
    `allow_private_egress` lets the egress proxy connect to private addresses: for an operator's own package index.
    """

    name = "docker"

    def __init__(
        self, state_dir: Path, owner: str, runtime: str | None = None, *, allow_private_egress: bool = False
    ) -> None:
        self.state_dir = state_dir.absolute()
        self.engine = Engine()
        self._owner = owner
        self._runtime = runtime
        self._allow_private_egress = allow_private_egress
        self._open: dict[str, OpenSandbox | None] = {}  # None while it opens
        self._starts = asyncio.Semaphore(STARTS_PER_CORE * (os.cpu_count() or 1))
        self._background: set[asyncio.Task[None]] = set()

    async def open(
        self, spec: SandboxSpec, *, writable_root: bool = False, ca_bundle: Path | None = None
    ) -> OpenSandbox:
        """See `SandboxDriver`. `writable_root` and `ca_bundle` are for the setup phase, whose result is committed."""
        sandbox_id = f"muster-{uuid.uuid4().hex}"
        self._open[sandbox_id] = None
        async with AsyncExitStack() as undo:
            undo.callback(self._open.pop, sandbox_id, None)
            workspace = await asyncio.to_thread(create_workspace, self.state_dir, sandbox_id, spec.checkout)
            undo.push_async_callback(asyncio.to_thread, remove_workspace, workspace.folder)
            expires_at_s = int(time.time()) + spec.limits.lifetime_s + EXPIRY_GRACE_S
            server = install_server(self.state_dir)
            opening = Opening(
                sandbox_id, spec, workspace, server, self._owner, expires_at_s, writable_root, self._runtime
            )
            channel = await self._start(opening, undo)
            proxy = EgressProxy(spec.egress, allow_private=self._allow_private_egress)
            env = await _open_egress(proxy, workspace.egress, channel, ca_bundle, undo) if spec.egress else {}
            work_tree = partial(self.engine.mountpoint, sandbox_id)
            destroy = undo.pop_all().aclose
            sandbox = OpenSandbox(sandbox_id, spec, channel, env, work_tree, destroy, lambda: proxy.refused)
            self._open[sandbox_id] = sandbox
            return sandbox
        raise AssertionError("unreachable")  # an exit stack swallows nothing here; for the type checker

    def capabilities(self) -> Capabilities:
        limits = frozenset({"memory_bytes", "cpus", "pids", "tmp_bytes", "tmp_inodes", "open_files", "lifetime_s"})
        return Capabilities(isolation="container", network_none=True, limits=limits, copy_on_write=True)

    async def reap(self, *, owner: str | None = None, now_s: float) -> list[str]:
        return await reap(self.engine, self.state_dir, owner=owner, now_s=now_s, spare=self._open.keys())

    async def close(self) -> None:
        opened = [sandbox for sandbox in self._open.values() if sandbox is not None]
        await asyncio.gather(*(sandbox.close() for sandbox in opened), *self._background, return_exceptions=True)
        await self.engine.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _start(self, opening: Opening, undo: AsyncExitStack) -> Channel:
        """Create, attach, start, and wait until the tool server listens."""
        name = opening.sandbox_id
        undo.push_async_callback(self.engine.remove_volume, name)
        undo.push_async_callback(self.engine.remove, name)
        async with self._starts:
            await self.engine.create(name, container_config(opening))
            stream = await self.engine.start(name)
            channel = Channel(stream, on_lost=partial(self._kill_soon, name))
            undo.push_async_callback(channel.close)
            try:
                await channel.ready(START_TIMEOUT_S)
            except SandboxLost as lost:
                said = stream.complaint.decode(errors="replace").strip() or str(lost)
                hint = "the image needs python3 of version 3.9 or later"
                raise SandboxError(f"The sandbox did not start: {said}", hint=hint) from lost
        return channel

    def _kill_soon(self, name: str) -> None:
        """A lost sandbox is not waited for: its owner closes it, or the reaper does."""
        removal = asyncio.create_task(self._remove_quietly(name))
        self._background.add(removal)
        removal.add_done_callback(self._background.discard)

    async def _remove_quietly(self, name: str) -> None:
        with suppress(SandboxError):  # closing tries again, and raises
            await self.engine.remove(name)


async def _open_egress(
    proxy: EgressProxy, folder: Path, channel: Channel, ca_bundle: Path | None, undo: AsyncExitStack
) -> dict[str, str]:
    """Open the one way out; what a command needs in its environment to find it."""
    undo.push_async_callback(proxy.close)
    await proxy.start(folder / SOCKET_NAME)
    has_bundle = copy_ca_bundle(ca_bundle, folder)
    port = await ToolClient(channel, {}).relay(f"{EGRESS_FOLDER}/{SOCKET_NAME}")
    return proxy_environment(port, EGRESS_FOLDER if has_bundle else None)
