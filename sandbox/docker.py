"""Docker's engine, in the dozen calls that a driver needs. The only file that names its client library."""

# The library types its parameters loosely; what leaves this file is checked again.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import asyncio
import base64
import json
import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aiodocker
import aiohttp
from aiodocker.stream import Stream
from aiodocker.volumes import DockerVolume
from yarl import URL

from repo.keeping import Kept
from repo.seed import Seed

from .base import Finding
from .errors import DiskFull, EngineUnavailable, ImageMissing, SandboxError, SandboxLost
from .touched import Stamps
from .unfit import FULL_HINT, require_limits
from .view import OverlayView, View, apply_from_outside
from .workspace import Workspace

CALL_TIMEOUT_S = 60.0  # an engine busy with 40 starts answers within 5 s
VOLUME_RETRY_S = 0.05  # the engine needs a few of these, rarely
# On a busy host the engine gives up on a process that does not stand still at once. Two tries in a row failed with ten
# times as much to do as there are processors.
FREEZE_TRIES = 10
FREEZE_RETRY_S = 0.5
COMMIT_TIMEOUT_S = 600.0  # gigabytes of installed packages
BAD_REQUEST, NOT_FOUND, CONFLICT, INTERNAL, UNREACHABLE = (
    400,
    404,
    409,
    500,
    900,
)  # the last is the client library's own
NO_IMAGE = "muster-no-such-image:none"
STDERR = 2
LAYERED = ("overlay2", "overlayfs")  # the second is the containerd store's name for it
MAX_FILE_BYTES = 1024 * 1024  # of /etc/passwd
NO_REGULAR_FILE = 0x8F280000  # of Go's file modes: folders, links, devices and the like
MAX_COMPLAINT_BYTES = 2000  # a Python traceback
ENGINE_HINT = "start Docker, set DOCKER_HOST, or run `muster doctor`"
REFUSED_HINT = "see the engine's own log, and whether this user may use it: `docker info`"


@dataclass(frozen=True, slots=True)
class Labelled:
    """A container or a volume of ours: `container.sandbox_of` tells whose."""

    name: str
    labels: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Holder:
    """A container that is never started: a volume is filled through it. Name and labels tell reapers whose it is."""

    name: str
    image: str  # any that the engine has
    labels: Mapping[str, str]


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
    """Every call is bounded in time, and raises `EngineUnavailable`, `ImageMissing` or `SandboxError`."""

    hint = "run `muster sandbox build`"  # for an image that is missing

    def __init__(self) -> None:
        self._client: aiodocker.Docker | None = None

    async def describe(self, runtime: str | None) -> str:
        """For people: the engine's version and the runtime; `EngineUnavailable` when it does not know the runtime."""
        details = await self.details()
        require_limits(details)
        if runtime and runtime not in details["Runtimes"]:
            hint = "add it to the engine's daemon.json; it has " + ", ".join(sorted(details["Runtimes"]))
            raise EngineUnavailable(f"The Docker engine has no runtime {runtime}.", hint=hint)
        return f"Docker engine {details['ServerVersion']}, runtime {runtime or details['DefaultRuntime']}"

    async def report(self) -> list[Finding]:
        details = await self.details()
        groups = f"control groups v{details.get('CgroupVersion', '1')} ({details.get('CgroupDriver')})"
        hint = "" if details.get("Driver") in LAYERED else "overlay2 opens sandboxes faster than this one"
        return [
            Finding("storage", f"{details.get('Driver')}, in {details.get('DockerRootDir')}", hint),
            Finding("limits", groups),
            _user_namespaces(security_options(details)),
        ]

    async def details(self) -> dict[str, Any]:
        async with self._call() as client:
            return dict(await client.system.info())

    async def sees(self, path: Path) -> bool:
        """Whether the engine has this file under this path. Nothing is made: it looks at mounts before the image."""
        mount = {"Type": "bind", "Source": str(path), "Target": "/probe", "ReadOnly": True}
        async with self._call() as client:
            try:
                await client.containers.create({"Image": NO_IMAGE, "HostConfig": {"Mounts": [mount]}})
            except aiodocker.DockerError as error:
                if error.status == NOT_FOUND:  # the image, that is
                    return True
                if error.status == BAD_REQUEST and "bind" in error.message:
                    return False
                raise
        raise SandboxError(f"The engine has an image {NO_IMAGE}, which nobody should make.")

    async def file_of(self, path: str, holder: Holder) -> bytes:
        """Of the holder's image; empty where that has no such file. It is as hostile as the image is."""
        labels = dict(holder.labels)
        async with self._call(ignore=(NOT_FOUND,)) as client:
            config = {"Image": holder.image, "Cmd": ["true"], "Labels": labels}
            container = await client.containers.create(config, name=holder.name)
            try:
                if not await _is_small_file(client, container.id, path):
                    return b""
                with await container.get_archive(path) as archive:
                    member = archive.next()
                    file = archive.extractfile(member) if member and member.isreg() else None
                    return file.read() if file else b""
            finally:
                await self.remove(holder.name)
        return b""

    async def has_volume(self, name: str) -> bool:
        async with self._call(ignore=(NOT_FOUND,)) as client:
            await client.volumes.get(name)
            return True
        return False

    async def fill(self, volume: str, volume_labels: Mapping[str, str], archive: Any, holder: Holder) -> None:
        """Unpack a tar archive (bytes, or a file) into a volume."""
        mount = {"Type": "volume", "Source": volume, "Target": "/stock", "VolumeOptions": {"NoCopy": True}}
        labels = dict(holder.labels)
        config = {"Image": holder.image, "Cmd": ["true"], "Labels": labels, "HostConfig": {"Mounts": [mount]}}
        async with self._call(timeout_s=COMMIT_TIMEOUT_S) as client:
            await client.volumes.create({"Name": volume, "Labels": dict(volume_labels)})
            container = await client.containers.create(config, name=holder.name)
            try:
                await container.put_archive("/stock", archive)
            finally:
                await self.remove(holder.name)

    async def volume_details(self, label: str) -> list[dict[str, Any]]:
        async with self._call() as client:
            found: dict[str, Any] = await client.volumes.list(filters={"label": [label]})
            return found["Volumes"] or []

    async def discard_volume(self, name: str) -> bool:
        """The engine refuses to remove one that a container has."""
        async with self._call(ignore=(NOT_FOUND, CONFLICT)) as client:
            await (await client.volumes.get(name)).delete()
            return True
        return False

    async def create(self, name: str, config: Mapping[str, Any]) -> None:
        async with self._call() as client:
            await client.containers.create(dict(config), name=name)

    async def start(self, name: str) -> AttachedStream:
        """Attach, then start: no byte of PID 1 is missed."""
        async with self._call() as client:
            own = aiodocker.Docker(api_version=client.api_version)
            stream = Stream(own, _attaching(name))
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
        """One that is gone already is fine."""
        async with self._call(ignore=(NOT_FOUND,)) as client:
            while True:
                try:
                    return await DockerVolume(client, name).delete()  # `get` would ask the engine for it first
                except aiodocker.DockerError as error:
                    if error.status != CONFLICT:
                        raise
                # The engine forgets a container a moment before it lets go of its volumes, and no event says when.
                await asyncio.sleep(VOLUME_RETRY_S)

    async def first_process(self, name: str) -> int:
        """Of a container that runs, by its id where the engine is."""
        async with self._call() as client:
            details: dict[str, Any] = await client.containers.container(name).show()
        return int(details["State"]["Pid"])

    async def pause(self, name: str) -> None:
        """Freeze every process of the container where it stands."""
        async with self._call() as client:
            container = client.containers.container(name)
            for tries_left in reversed(range(FREEZE_TRIES)):
                try:
                    await container.pause()
                    return
                except aiodocker.DockerError as error:
                    if error.status < INTERNAL or not tries_left:
                        raise
                await asyncio.sleep(FREEZE_RETRY_S)

    async def resume(self, name: str) -> None:
        async with self._call() as client:
            await client.containers.container(name).unpause()

    async def mountpoint(self, volume: str) -> Path:
        """Where the volume of a running container can be read on this host; `SandboxError` where it cannot."""
        async with self._call() as client:
            details: dict[str, Any] = await (await client.volumes.get(volume)).show()
        path = Path(str(details["Mountpoint"]))
        # Not mounted is empty, and an empty workspace would read as one whose every file was deleted.
        if await asyncio.to_thread(os.path.ismount, path):
            return path
        if await asyncio.to_thread(os.path.exists, path):
            raise SandboxLost("The sandbox is gone.")
        hint = "patches need the engine on this host, and a worker that runs as root"
        raise SandboxError("The workspace cannot be read from this host.", hint=hint)

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
        """Keep a container's file system, without its mounts, as `image` (repository:tag)."""
        repository, _, tag = image.partition(":")
        async with self._call(timeout_s=COMMIT_TIMEOUT_S) as client:
            await client.containers.container(name).commit(repository=repository, tag=tag, config=dict(config))

    async def stamp(self, image: str) -> None:
        """The engine remembers when an image was last given a name, this one again."""
        repository, _, tag = image.partition(":")
        async with self._call() as client:
            await client.images.tag(image, repository, tag=tag)

    async def kept(self, names: str) -> list[Kept]:
        async with self._call() as client:
            found = await client.images.list(filters={"reference": [names]})
            return [await _kept(client, str(tag)) for image in found for tag in image["RepoTags"] or []]

    async def discard_unnamed(self, label: str, *, before_s: float) -> None:
        """Images with this label whose name another one has now, as far as no container was made from them. One that
        was made a moment ago may be about to get its name."""
        async with self._call() as client:
            found = await client.images.list(filters={"label": [label], "dangling": ["true"]})
        for image in found:
            if image["Created"] < before_s:
                await self.discard(str(image["Id"]))

    async def discard(self, image: str) -> bool:
        """The engine refuses to remove one that a container was made from."""
        async with self._call(ignore=(NOT_FOUND, CONFLICT)) as client:
            await client.images.delete(image)
            return True
        return False

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


@dataclass(frozen=True, slots=True)
class Container:
    """Keeps one sandbox. See `view.Keeper`."""

    engine: Engine
    name: str
    overlay: OverlayView
    merged: Path | None = None  # the workspace, where it is not the engine's volume any more

    def over(self, workspace: Workspace) -> Container:
        return replace(self, overlay=replace(self.overlay, upper=workspace.upper), merged=workspace.merged)

    async def freeze(self) -> None:
        await self.engine.pause(self.name)

    async def thaw(self) -> None:
        await self.engine.resume(self.name)

    async def work_tree(self) -> Path:
        return self.merged or await self.engine.mountpoint(self.name)

    async def stamps(self) -> Stamps | None:
        return await self.overlay.stamps()

    def view(self, git_dir: Path, seed: Seed | None, *, whole: bool) -> AbstractAsyncContextManager[View]:
        return self.overlay.of(self, seed)

    async def setup_files(self, target: Path) -> None:
        await self.overlay.setup_files(self, target)

    async def apply(self, git_dir: Path, diff: bytes) -> None:
        await apply_from_outside(self, git_dir, diff)


def _attaching(name: str) -> Callable[[], Awaitable[tuple[URL, None, bool]]]:
    """What the library's own `attach` asks for, but for what it asks before: whether there is a terminal. There is
    none."""
    wanted = {"logs": 0, "stdin": 1, "stdout": 1, "stderr": 1, "stream": 1}

    async def setup() -> tuple[URL, None, bool]:
        return URL(f"containers/{name}/attach").with_query(wanted), None, False

    return setup


async def _is_small_file(client: aiodocker.Docker, container: str, path: str) -> bool:
    """Asked first: the library takes an archive into memory whole."""
    place, query = f"containers/{container}/archive", {"path": path}
    try:
        async with client._query(place, method="HEAD", params=query) as answer:  # pyright: ignore[reportPrivateUsage]
            told = json.loads(base64.b64decode(answer.headers["X-Docker-Container-Path-Stat"]))
    except json.JSONDecodeError:  # the library looks for a reason where such an answer has none: no file is there
        return False
    return not told["mode"] & NO_REGULAR_FILE and told["size"] <= MAX_FILE_BYTES


async def _kept(client: aiodocker.Docker, image: str) -> Kept:
    details = await client.images.inspect(image)
    base = await client.images.inspect(details["Parent"]) if details["Parent"] else {"Size": 0}
    used = datetime.fromisoformat(str(details["Metadata"]["LastTagTime"])[: len("2000-01-01T00:00:00")])
    return Kept(image, int(details["Size"] - base["Size"]), used.replace(tzinfo=UTC).timestamp())


def security_options(details: Mapping[str, Any]) -> set[str]:
    """Their names: `rootless`, `userns` and others."""
    said: list[str] = details.get("SecurityOptions") or []
    return {each.partition(",")[0].removeprefix("name=") for each in said}


def _user_namespaces(options: Collection[str]) -> Finding:
    for option, words in (("userns", "remapped by the engine"), ("rootless", "the engine is rootless")):
        if option in options:
            return Finding("user ids", words)
    return Finding("user ids", "as on this machine; no user namespace of the engine")


def _translated(error: aiodocker.DockerError) -> SandboxError:
    if error.status == UNREACHABLE:
        return EngineUnavailable("The Docker engine cannot be reached.", hint=ENGINE_HINT)
    if error.status == NOT_FOUND and "o such image" in error.message:
        return ImageMissing(f"The engine has no such image: {error.message}.", hint=Engine.hint)
    if error.status == NOT_FOUND and "o such" in error.message:  # a container or a volume
        return SandboxLost("The sandbox is gone.")
    if "no space left on device" in error.message:
        return DiskFull("The Docker engine's disk is full.", hint=FULL_HINT)
    return SandboxError(f"The Docker engine refused: {error.message.strip().removesuffix('.')}.", hint=REFUSED_HINT)
