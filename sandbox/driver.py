"""Open, keep track of and reap sandboxes: containers of the Docker engine on this host."""

from __future__ import annotations

import asyncio
import os
import time
from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Self

from repo.keeping import IN_USE_S, Allowance, Kept

from .base import Capabilities, Finding, Known, OnOutput, SandboxSpec, Setup
from .card import Card
from .channel import Channel
from .container import ACCOUNTS, EGRESS_FOLDER, OWNER_LABEL, Opening, SetupRoot, container_config, renumbered
from .disk import DISK_LIMITS, disk_report, held_limits
from .docker import Container, Engine, Holder
from .egress import SOCKET_NAME, EgressProxy, copy_ca_bundle, proxy_environment
from .elsewhere.assembly import Elsewhere
from .elsewhere.probe import Placement, placement_of
from .elsewhere.stock import Stock
from .errors import SandboxError, SandboxLost
from .opened import OpenSandbox
from .openings import Openings
from .reaper import known_of, reap
from .renewal import renewal_of
from .setup import collect_setups, ensure_setup, image_id_of, kept_setups
from .setup_files import FOLDER, layer_of
from .setup_root import SETUP_LABEL, on_disk, open_root, places_of, root_of
from .shell import shell_in_container
from .tools import ToolClient
from .toolserver import install_server
from .uids import AGENT_UID, users_report
from .unfit import NOT_STARTED, why_not_started
from .view import OverlayView
from .watching import UNWATCHED, SandboxWatch
from .workspace import Workspace, create_workspace, lower_shown, remove_workspace

STARTS_PER_CORE = 2  # more at once are no faster (measured), only more unfair
# By engine or kernel, wherever a sandbox opens at all; those of the workspace's disk depend on this host.
HELD_LIMITS = frozenset(
    {"memory_bytes", "cpus", "pids", "tmp_bytes", "tmp_inodes", "shm_inodes", "open_files", "lifetime_s"}
)
START_TIMEOUT_S = 30.0  # 0.16 s alone, 2 s for twenty at once (measured); the rest is a busy machine
EXPIRY_GRACE_S = 60  # after its own timer should have ended it, anybody may remove it


class DockerDriver:
    """See `SandboxDriver`. `async with` closes all sandboxes that are still open.

    `state_dir` holds what the engine mounts, if it sees it under the same path; else what sandboxes need travels to it.
    `owner` names this worker
    for `reap`; two that live at once need two names. `runtime` is an OCI runtime that the engine knows, such as runsc.
    `allow_private_egress` lets the egress proxy connect to private addresses: for an operator's own package index.
    """

    name = "docker"

    def __init__(
        self,
        state_dir: Path,
        owner: str,
        runtime: str | None = None,
        *,
        allow_private_egress: bool = False,
        watch: SandboxWatch = UNWATCHED,
    ) -> None:
        self.engine = Engine()
        self.state_dir = state_dir.absolute()
        self._owner = owner
        self._runtime = runtime
        self._allow_private_egress = allow_private_egress
        self._openings = Openings(watch)
        self._sandboxes = self.state_dir / "sandboxes"
        self._stock = Stock(self.engine, self.state_dir / "stock")
        self._placement: Placement | None = None
        self._asking = asyncio.Lock()
        self._accounts_of: dict[str, bytes] = {}  # by the image's id
        self._starts = asyncio.Semaphore(STARTS_PER_CORE * (os.cpu_count() or 1))

    async def open(
        self, spec: SandboxSpec, *, writable_root: bool = False, ca_bundle: Path | None = None
    ) -> OpenSandbox:
        """See `SandboxDriver`. `writable_root` and `ca_bundle` are for the setup phase, whose result is committed."""
        # A setup changes what the image has for its own user, who is the same in each.
        return await self._openings.open(partial(self._assemble, spec, writable_root, ca_bundle, not writable_root))

    async def check(self) -> str:
        return await self.engine.describe(self._runtime)

    async def report(self) -> list[Finding]:
        isolates = Finding("isolation", await self.check())
        elsewhere = await self._elsewhere()
        workspaces = elsewhere.report() if elsewhere else [*disk_report(self.state_dir), users_report(self.state_dir)]
        return [isolates, *await self.engine.report(), *workspaces]

    async def shell(self, sandbox_id: str, *, tty: bool) -> list[str]:
        if all(each.name != sandbox_id for each in await self.engine.containers(OWNER_LABEL)):
            raise SandboxLost("The sandbox is gone.")
        return shell_in_container(sandbox_id, tty=tty)

    async def known(self) -> list[Known]:
        things = [*await self.engine.volumes(OWNER_LABEL), *await self.engine.containers(OWNER_LABEL)]
        return known_of(things, self._sandboxes)

    async def require_image(self, image: str) -> str:
        return await image_id_of(self.engine, image)

    async def prepare_image(self, setup: Setup, on_output: OnOutput | None = None) -> str:
        open_writable = partial(self.open, writable_root=True)
        image = await ensure_setup(setup, self.engine, open_writable, self.state_dir, on_output)
        if setup.commands:  # it may have had another one make room
            await self._stock.forget_layers()
        return image

    async def setups(self) -> list[Kept]:
        return [*await kept_setups(self.engine, self.state_dir), *await self._stock.kept()]

    async def collect(self, allowance: Allowance, *, now_s: float) -> list[Kept]:
        images = await collect_setups(self.engine, self.state_dir, allowance, now_s=now_s)
        await self.engine.discard_unnamed(SETUP_LABEL, before_s=now_s - IN_USE_S)
        return [*images, *await self._stock.collect(allowance, now_s=now_s)]

    def capabilities(self) -> Capabilities:
        is_elsewhere = self._placement is not None and self._placement.why_elsewhere
        limits = HELD_LIMITS | (DISK_LIMITS if is_elsewhere else held_limits())
        return Capabilities(isolation="container", network_none=True, limits=limits, copy_on_write=True)

    async def reap(self, *, owner: str | None = None, now_s: float) -> list[str]:
        # Of our own, too: what could not be removed when its sandbox was closed is open no more.
        owners = frozenset({self._owner, owner or self._owner})
        return await reap(self.engine, self.state_dir, owners=owners, now_s=now_s, spare=self._openings.ids)

    async def close(self) -> None:
        """Close every open sandbox; the first failure is raised after all were tried."""
        failures = await self._openings.close()
        await self.engine.close()
        if failures:
            raise failures[0]

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _assemble(
        self,
        spec: SandboxSpec,
        writable_root: bool,
        ca_bundle: Path | None,
        own_user: bool,
        sandbox_id: str,
        undo: AsyncExitStack,
    ) -> OpenSandbox:
        expires_at_s = int(time.time()) + spec.limits.lifetime_s + EXPIRY_GRACE_S
        card = Card(self._owner, expires_at_s, dict(spec.labels))
        # The operator's own index is for setup: a task reaches no private address by it.
        allow_private = self._allow_private_egress and writable_root
        proxy = EgressProxy(spec.egress, allow_private=allow_private, outlet=spec.outlet)
        layer = layer_of(self.state_dir / FOLDER, spec.image, spec.checkout)
        elsewhere = await self._elsewhere()
        in_memory = elsewhere is not None or not held_limits()
        root = await self._root(spec, sandbox_id, in_memory=in_memory) if writable_root else None
        if elsewhere:
            workspace, server = Workspace(self._sandboxes / sandbox_id, self.state_dir, layer=layer), self.state_dir
            opening = Opening(sandbox_id, spec, workspace, server, self._owner, expires_at_s, self._runtime, root=root)
            return await elsewhere.assemble(opening, card, proxy, ca_bundle, undo)
        limits = None if spec.read_only else spec.limits
        if root is not None and not in_memory:  # on the same disk
            size, files = spec.limits.workspace_bytes + root.base_bytes, spec.limits.workspace_inodes + root.base_files
            limits = replace(spec.limits, workspace_bytes=size, workspace_inodes=files)
        workspace = await asyncio.to_thread(
            partial(create_workspace, own_user=own_user, in_memory=root is not None and in_memory),
            *(self.state_dir, sandbox_id, spec.checkout, limits, card, layer),
        )
        undo.push_async_callback(asyncio.to_thread, remove_workspace, workspace.folder)
        server = install_server(workspace.folder)
        opening = Opening(sandbox_id, spec, workspace, server, self._owner, expires_at_s, self._runtime)
        kept = None
        if root is not None:
            root = root if in_memory else await asyncio.to_thread(on_disk, root, workspace.disk)
            opening = replace(opening, root=root)
            kept = await open_root(self.engine, opening, self._start, undo)
        async with lower_shown(workspace):
            channel = await self._start(opening, undo)
        env = await open_egress(proxy, workspace, channel, ca_bundle, undo) if spec.has_network else {}
        container = Container(self.engine, sandbox_id, OverlayView(spec, workspace.upper, layer))
        renewal = None
        if spec.reusable:
            process = await self.engine.first_process(sandbox_id)
            renewal = await renewal_of(process, await container.work_tree(), workspace, container.over, undo)
        return OpenSandbox(
            sandbox_id,
            spec,
            channel,
            env,
            container,
            undo.aclose,
            proxy.refused,
            workspace.folder,
            renewal,
            layer,
            kept,
        )

    async def _accounts(self, opening: Opening) -> Path | None:
        """The image's own, for a user of another number: many programs end where theirs has no name. None where the
        image has none for `AGENT_UID` either."""
        image_id = await self.require_image(opening.spec.image)
        if image_id not in self._accounts_of:
            holder = Holder(opening.sandbox_id, image_id, opening.labels)
            self._accounts_of[image_id] = await self.engine.file_of(ACCOUNTS, holder)
        known = self._accounts_of[image_id]
        mine = renumbered(known, opening.workspace.uid)
        if mine == known:
            return None
        file = opening.workspace.folder / "passwd"
        await asyncio.to_thread(file.write_bytes, mine)
        file.chmod(0o644)
        return file

    async def _root(self, spec: SandboxSpec, sandbox_id: str, *, in_memory: bool) -> SetupRoot:
        image_id = await image_id_of(self.engine, spec.image)
        # What a setup may write, its own user says.
        open_as_agent = partial(self._assemble, SandboxSpec(spec.image), False, None, False)
        places = await places_of(image_id, self.state_dir, partial(self._openings.open, open_as_agent))
        return root_of(sandbox_id, places, spec.limits, in_memory=in_memory)

    async def _elsewhere(self) -> Elsewhere | None:
        """How workspaces are made where the engine cannot mount this host's folders. Asked once."""
        async with self._asking:
            if self._placement is None:
                self._placement = await placement_of(self.engine, self.state_dir)
        return Elsewhere(self._stock, self._placement, self._start) if self._placement.why_elsewhere else None

    async def _start(self, opening: Opening, undo: AsyncExitStack) -> Channel:
        """Create, attach, start, and wait until the tool server listens."""
        name = opening.sandbox_id
        undo.push_async_callback(self.engine.remove_volume, name)
        undo.push_async_callback(self.engine.remove, name)
        async with self._starts:
            try:
                if opening.workspace.uid != AGENT_UID:
                    opening = replace(opening, accounts=await self._accounts(opening))
                await self.engine.create(name, container_config(opening))
                stream = await self.engine.start(name)
            except SandboxError as refusal:
                if unfit := why_not_started(opening.spec.image, str(refusal)):
                    raise unfit from refusal
                raise
            channel = Channel(stream, on_lost=partial(self._kill_soon, name))
            undo.push_async_callback(channel.close)
            # Before the channel: a closed input ends the container by itself, and two removals would race.
            undo.push_async_callback(self.engine.remove, name)
            undo.callback(channel.give_up)
            try:
                await channel.ready(START_TIMEOUT_S)
            except SandboxLost as lost:
                said = stream.complaint.decode(errors="replace").strip() or str(lost)
                raise why_not_started(opening.spec.image, said) or SandboxError(NOT_STARTED.format(said)) from lost
        return channel

    def _kill_soon(self, name: str) -> None:
        """A lost sandbox is not waited for: its owner closes it, or the reaper does."""
        self._openings.in_background(self._remove_quietly(name))

    async def _remove_quietly(self, name: str) -> None:
        with suppress(SandboxError):  # closing tries again, and raises
            await self.engine.remove(name)


async def open_egress(
    proxy: EgressProxy, workspace: Workspace, channel: Channel, ca_bundle: Path | None, undo: AsyncExitStack
) -> dict[str, str]:
    """Open the one way out; what a command needs in its environment to find it."""
    folder = workspace.egress
    undo.push_async_callback(proxy.close)
    await proxy.start(folder / SOCKET_NAME, workspace.uid)
    has_bundle = copy_ca_bundle(ca_bundle, folder)
    port = await ToolClient(channel, {}).relay(f"{EGRESS_FOLDER}/{SOCKET_NAME}")
    return proxy_environment(port, EGRESS_FOLDER if has_bundle else None) | proxy.environment
