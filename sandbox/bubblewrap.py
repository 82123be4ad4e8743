"""Open, keep track of and reap sandboxes without an engine: namespaces of this host's kernel, made by bubblewrap."""

from __future__ import annotations

import asyncio
import os
import shutil
import time
from contextlib import AbstractAsyncContextManager, AsyncExitStack, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Self

from repo.keeping import Allowance, Kept
from repo.seed import Seed

from .base import Capabilities, Finding, Known, OnOutput, SandboxSpec, Setup
from .card import Card
from .cgroup import ControlGroup, create_group, group_of, groups_version
from .channel import Channel
from .disk import disk_report, held_limits
from .driver import EXPIRY_GRACE_S, HELD_LIMITS, START_TIMEOUT_S, STARTS_PER_CORE, open_egress
from .egress import EgressProxy
from .errors import EngineUnavailable, SandboxError, SandboxLost
from .host_process import run
from .mounts import mount_overlay, unmount
from .namespace import Opening, Root, launcher, make_places, mounts_of
from .opened import OpenSandbox
from .openings import Openings
from .pipes import ProcessStream
from .reaper import Gone, due_folders, known_of
from .renewal import renewal_of
from .roots import ROOT, Roots
from .seccomp import as_file
from .setup import collect_setups, ensure_setup, image_id_of, kept_setups
from .setup_files import FOLDER, layer_of
from .setup_root import HINT, HINT_IN_MEMORY, LayerRoot
from .shell import first_process, shell_in_namespaces
from .toolserver import install_server
from .touched import Stamps
from .uids import users_report
from .unfit import NOT_STARTED, why_not_started
from .view import OverlayView, View, apply_from_outside
from .watching import UNWATCHED, SandboxWatch
from .workspace import Workspace, create_workspace, lower_shown, remove_workspace

NEEDED = {"bwrap": "bubblewrap", "setpriv": "util-linux", "nsenter": "util-linux"}
CHECK_TIMEOUT_S = 10.0
UPPER = "root"  # on a workspace's disk: what setup commands write of their root


class BubblewrapDriver:
    """See `SandboxDriver`. `async with` closes all sandboxes that are still open.

    Needs root on this host: for the overlay, for control groups, and to become nobody special before bubblewrap
    starts. Commands share this host's kernel behind a system call filter; there is no second one as with runsc.
    """

    name = "bubblewrap"

    def __init__(
        self, state_dir: Path, owner: str, *, allow_private_egress: bool = False, watch: SandboxWatch = UNWATCHED
    ) -> None:
        """Everything stands in a folder of its own under `state_dir`. `owner` names this worker for `reap`."""
        self.state_dir = state_dir.absolute() / self.name
        self._owner = owner
        self._allow_private_egress = allow_private_egress
        self._openings = Openings(watch)
        self.roots = Roots(self.state_dir / "images", self._sandboxes, self.state_dir / "roots")
        self._starts = asyncio.Semaphore(STARTS_PER_CORE * (os.cpu_count() or 1))

    async def open(
        self, spec: SandboxSpec, *, writable_root: bool = False, ca_bundle: Path | None = None
    ) -> OpenSandbox:
        """See `SandboxDriver`. `writable_root` and `ca_bundle` are for the setup phase, whose result is kept."""
        self._require_programs()
        return await self._openings.open(partial(self._assemble, spec, writable_root, ca_bundle))

    async def check(self) -> str:
        self._require_programs()
        answer = await run(["bwrap", "--version"], timeout_s=CHECK_TIMEOUT_S)
        return f"{answer.stdout.decode().strip()}, {groups_version()}"

    async def report(self) -> list[Finding]:
        isolates = Finding("isolation", await self.check())
        return [isolates, self.roots.report(), *disk_report(self.state_dir), users_report(self.state_dir)]

    async def shell(self, sandbox_id: str, *, tty: bool) -> list[str]:
        return shell_in_namespaces(group_of(sandbox_id), tty=tty)

    async def known(self) -> list[Known]:
        return known_of([], self._sandboxes)

    async def require_image(self, image: str) -> str:
        self._require_programs()
        return await image_id_of(self.roots, image)

    async def prepare_image(self, setup: Setup, on_output: OnOutput | None = None) -> str:
        open_writable = partial(self.open, writable_root=True)
        return await ensure_setup(setup, self.roots, open_writable, self.state_dir, on_output)

    async def setups(self) -> list[Kept]:
        return await kept_setups(self.roots, self.state_dir)

    async def collect(self, allowance: Allowance, *, now_s: float) -> list[Kept]:
        return await collect_setups(self.roots, self.state_dir, allowance, now_s=now_s)

    def capabilities(self) -> Capabilities:
        limits = HELD_LIMITS | held_limits()
        return Capabilities(isolation="namespace", network_none=True, limits=limits, copy_on_write=True)

    async def reap(self, *, owner: str | None = None, now_s: float) -> list[str]:
        # Of our own, too: what could not be removed when its sandbox was closed is open no more.
        owners = frozenset({self._owner, owner or self._owner})
        due = [name for name in due_folders(self._sandboxes, owners, now_s) if name not in self._openings.ids]
        gone = Gone()
        await gone.remove_all(due, lambda name: _dismantle(self._sandboxes / name))
        return gone.told()

    async def close(self) -> None:
        """Close every open sandbox; the first failure is raised after all were tried."""
        if failures := await self._openings.close():
            raise failures[0]

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def _sandboxes(self) -> Path:
        return self.state_dir / "sandboxes"

    @property
    def _setup_files(self) -> Path:
        return self.state_dir / FOLDER

    def _require_programs(self) -> None:
        if os.geteuid() != 0:
            raise EngineUnavailable("The driver bubblewrap needs root on this host.", hint="use the driver docker")
        for program, package in NEEDED.items():
            if shutil.which(program) is None:
                raise EngineUnavailable(f"{program} is not installed.", hint=f"install Debian's package {package}")

    async def _assemble(
        self, spec: SandboxSpec, writable_root: bool, ca_bundle: Path | None, sandbox_id: str, undo: AsyncExitStack
    ) -> OpenSandbox:
        limits = None if spec.read_only else spec.limits
        expires_at_s = int(time.time()) + spec.limits.lifetime_s + EXPIRY_GRACE_S
        card = Card(self._owner, expires_at_s, dict(spec.labels))
        layer = layer_of(self._setup_files, spec.image, spec.checkout)
        # A setup ends at its bounds on every host: what it writes in memory counts as its own.
        in_memory = writable_root and not held_limits()
        if in_memory:
            written = min(spec.limits.workspace_bytes, spec.limits.memory_bytes)
            limits = replace(spec.limits, workspace_bytes=written, memory_bytes=spec.limits.memory_bytes + written)
        # It also changes what the image has for its own user, who is the same in each.
        workspace = await asyncio.to_thread(
            partial(create_workspace, own_user=not writable_root, in_memory=in_memory),
            *(self.state_dir, sandbox_id, spec.checkout, limits, card, layer),
        )
        undo.push_async_callback(_dismantle, workspace.folder)
        async with lower_shown(workspace):
            lower, upper, work = [*workspace.below.values()], workspace.upper, workspace.work
            await mount_overlay(workspace.merged, lower, upper=upper, work=work, source=workspace.source)
        root = await self._root(spec.image, workspace, writable_root)
        group = create_group(sandbox_id, limits or spec.limits)
        channel, process = await self._start(spec, sandbox_id, workspace, root, group, undo)
        allow_private = self._allow_private_egress and writable_root
        proxy = EgressProxy(spec.egress, allow_private=allow_private, outlet=spec.outlet)
        env = await open_egress(proxy, workspace, channel, ca_bundle, undo) if spec.has_network else {}
        keeper = Namespaces(group, workspace.merged, process, OverlayView(spec, workspace.upper, layer))
        renewal = None
        if spec.reusable:
            renewal = await renewal_of(first_process(group), workspace.merged, workspace, keeper.over, undo)
        folder = workspace.folder
        kept = None
        if writable_root and limits is not None:
            hint = HINT_IN_MEMORY if in_memory else HINT
            kept = LayerRoot(self.roots, sandbox_id, workspace.disk / UPPER, folder, limits, hint)
        return OpenSandbox(
            sandbox_id, spec, channel, env, keeper, undo.aclose, proxy.refused, folder, renewal, layer, kept
        )

    async def _root(self, image: str, workspace: Workspace, writable: bool) -> Root:
        """Layers lie over each other; one that can be written lies on top of them, on the workspace's disk. This host's
        own programs are as they are."""
        folder = workspace.folder / ROOT
        layers, mounted = self.roots.layers(image), folder / "merged"
        if writable and layers == [Path("/")]:
            raise SandboxError("Setup commands cannot change this host.", hint="use an image in a folder of its own")
        if layers != [Path("/")]:
            folder.mkdir()
            (folder / "base").write_text(image)
            top = workspace.disk / UPPER if writable else folder / UPPER
            work = workspace.disk / f"{UPPER}-work"
            for part in (top, work) if writable else (top,):
                part.mkdir()
                part.chmod(0o755)  # the root's own mode, by the topmost layer
            # Read-only ones, too: by the very files of the image, a sandbox could watch what another opens.
            lower = layers if writable or len(layers) > 1 else [top, *layers]
            await mount_overlay(mounted, lower, upper=top if writable else None, work=work)
        if writable:
            make_places(mounted)
        return Root(mounted, (), writable=True) if writable else self.roots.root(image, mounted)

    async def _start(
        self,
        spec: SandboxSpec,
        sandbox_id: str,
        workspace: Workspace,
        root: Root,
        group: ControlGroup,
        undo: AsyncExitStack,
    ) -> tuple[Channel, asyncio.subprocess.Process]:
        """Start, and wait until the tool server listens."""
        async with self._starts, AsyncExitStack() as open_files:
            filter_fd = as_file()
            open_files.callback(os.close, filter_fd)
            opening = Opening(sandbox_id, spec, workspace, install_server(workspace.folder), root, group, filter_fd)
            mounts_fd = await mounts_of(opening)
            open_files.callback(os.close, mounts_fd)
            process = await asyncio.create_subprocess_exec(
                *launcher(opening, mounts_fd),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                pass_fds=(filter_fd,),
                env={"PATH": os.defpath},
                umask=0o022,  # an engine's containers have it, too
            )
            stream = ProcessStream(process)
            channel = Channel(stream, on_lost=group.kill)
            undo.push_async_callback(channel.close)
            undo.callback(channel.give_up)
            try:
                await channel.ready(START_TIMEOUT_S)
            except SandboxLost as lost:
                said = stream.complaint.decode(errors="replace").strip() or str(lost)
                raise why_not_started(spec.image, said) or SandboxError(NOT_STARTED.format(said)) from lost
        return channel, process


@dataclass(frozen=True, slots=True)
class Namespaces:
    """Keeps one sandbox. See `view.Keeper`."""

    group: ControlGroup
    merged: Path
    process: asyncio.subprocess.Process
    overlay: OverlayView

    def over(self, workspace: Workspace) -> Namespaces:
        return replace(self, merged=workspace.merged, overlay=replace(self.overlay, upper=workspace.upper))

    async def freeze(self) -> None:
        try:
            await self.group.freeze()
        except FileNotFoundError as gone:
            raise SandboxLost("The sandbox is gone.") from gone

    async def thaw(self) -> None:
        with suppress(FileNotFoundError):  # it was closed meanwhile
            await self.group.thaw()

    async def work_tree(self) -> Path:
        if not self.merged.is_mount():
            raise SandboxLost("The sandbox is gone.")
        return self.merged

    async def stamps(self) -> Stamps | None:
        return await self.overlay.stamps()

    def view(self, git_dir: Path, seed: Seed | None, *, whole: bool) -> AbstractAsyncContextManager[View]:
        return self.overlay.of(self, seed)

    async def setup_files(self, target: Path) -> None:
        await self.overlay.setup_files(self, target)

    async def apply(self, git_dir: Path, diff: bytes) -> None:
        await apply_from_outside(self, git_dir, diff)


async def _dismantle(folder: Path) -> None:
    """Remove what one sandbox had on this host."""
    await group_of(folder.name).remove()
    for mounted in (folder / "merged", folder / ROOT / "merged"):
        await unmount(mounted)
    await asyncio.to_thread(remove_workspace, folder)
