"""One task's copy-on-write view of a checkout, as folders on the engine's host.

The engine mounts the overlay as a volume, so nobody here needs to mount anything. Folders of one sandbox:
`<state_dir>/sandboxes/<id>/{disk/upper,disk/work,egress}`, where `disk` may be a file system of its own.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from repo.removal import remove_tree

from .base import Limits
from .card import CARD, Card, write_card
from .disk import BLANKS, MOUNT, held_limits, mount_disk, unmount_disk
from .errors import SandboxError
from .kernel import NODEV, NOSUID, mount, unmount
from .uids import AGENT_GID, AGENT_UID, hide, show, uid_for

LOWER = "lower"  # in a sandbox's folder, while its overlay is mounted: what lies below, as its user sees it


@dataclass(frozen=True, slots=True)
class Workspace:
    """`turn` counts how often what was written has been thrown away. `layer` lies over `lower`: see `setup_files`.
    `uid` is the sandbox's user; both belong to `AGENT_UID`."""

    folder: Path
    lower: Path
    turn: int = 0
    layer: Path | None = None
    uid: int = AGENT_UID

    @property
    def disk(self) -> Path:
        """A file system of its own, where this host can make one."""
        return self.folder / MOUNT

    @property
    def upper(self) -> Path:
        return self.disk / f"upper{self.turn or ''}"

    @property
    def work(self) -> Path:
        """The overlay's own, on the same file system."""
        return self.disk / f"work{self.turn or ''}"

    @property
    def egress(self) -> Path:
        return self.folder / "egress"

    @property
    def merged(self) -> Path:
        """Where a driver that mounts by itself has the overlay."""
        return self.folder / f"merged{self.turn or ''}"

    @property
    def below(self) -> dict[Path, Path]:
        """What lies below, topmost first, and where an overlay finds it: see `lower_shown` where that is elsewhere."""
        folders = [each for each in (self.layer, self.lower) if each is not None]
        is_shown = self.uid != AGENT_UID
        return {each: self.folder / f"{LOWER}{at}" if is_shown else each for at, each in enumerate(folders)}

    @property
    def layers(self) -> str:
        lower = ":".join(map(str, self.below.values()))
        return f"lowerdir={lower},upperdir={self.upper},workdir={self.work}"

    @property
    def source(self) -> str:
        """The kernel ignores it, and tells it in its list of mounts: who collects what is not used any more looks for
        it there (`repo.cache`), also after what `lower_shown` shows is gone."""
        return ":".join(map(str, self.below))

    def volume_options(self) -> dict[str, str]:
        """For the engine's `local` volume driver, which hands them to mount(2)."""
        return {"type": "overlay", "device": self.source, "o": f"nosuid,nodev,{self.layers}"}


def create_workspace(
    state_dir: Path,
    sandbox_id: str,
    checkout: Path | None,
    limits: Limits | None = None,
    card: Card | None = None,
    layer: Path | None = None,
    *,
    own_user: bool = False,
    in_memory: bool = False,
) -> Workspace:
    """Make the folders. The engine must see them under the same paths, so it has to run on this host.

    `card` tells reapers whose they are; without one their age does. `layer` lies over the checkout. What is written
    ends at `limits` where this host can hold them; None is for a workspace that nobody may write. `in_memory` holds
    them everywhere. With `own_user` the sandbox's user is nobody else's, where this host can do that.
    """
    lower = (checkout if checkout is not None else state_dir / "empty").absolute()
    folder = (state_dir / "sandboxes" / sandbox_id).absolute()
    if any(mark in f"{lower}{folder}{layer or ''}" for mark in ",:\\"):
        raise SandboxError(
            "A folder of the workspace has a comma, colon or backslash in its name, which overlays refuse."
        )
    if checkout is not None and not checkout.is_dir():
        raise SandboxError(f"The checkout {checkout} is not there.")
    lower.mkdir(parents=True, exist_ok=True)
    uid = uid_for(folder.parent, lower) if own_user else AGENT_UID
    workspace = Workspace(folder, lower, layer=layer, uid=uid)
    folder.mkdir(parents=True)
    try:
        if card is not None:
            write_card(folder, card)
        if limits is not None and in_memory:
            workspace.disk.mkdir()
            bounds = f"size={limits.workspace_bytes},nr_inodes={limits.workspace_inodes},mode=0755"
            mount("tmpfs", workspace.disk, bounds, NOSUID | NODEV)
        elif limits is not None and held_limits():
            mount_disk(folder, limits, state_dir.absolute() / BLANKS)
        workspace.egress.mkdir()
        let_agent_in(workspace.egress, 0o750)
        _make_layer(workspace)
    except PermissionError as error:
        remove_workspace(folder)
        hint = "run the worker as root on the engine's host"
        raise SandboxError("The workspace cannot be given to the sandbox's user.", hint=hint) from error
    except BaseException:
        remove_workspace(folder)
        raise
    return workspace


def add_layer(workspace: Workspace) -> Workspace:
    """The same checkout below, and nothing written yet: mounted on this host, beside what is mounted already."""
    fresh = replace(workspace, turn=workspace.turn + 1)
    _make_layer(fresh)
    fresh.merged.mkdir()
    try:
        _show_below(fresh)
        mount("overlay", fresh.merged, fresh.layers, NOSUID | NODEV, source=fresh.source)
    finally:
        _hide_below(fresh.folder)
    return fresh


@asynccontextmanager
async def lower_shown(workspace: Workspace) -> AsyncGenerator[None]:
    """While its overlay is mounted, which holds from then on what lies below."""
    try:
        await asyncio.to_thread(_show_below, workspace)
        yield
    finally:
        await asyncio.to_thread(_hide_below, workspace.folder)


def _show_below(workspace: Workspace) -> None:
    for source, place in workspace.below.items():
        if place != source:
            show(source, place, workspace.uid)


def _hide_below(folder: Path) -> None:
    for place in folder.glob(f"{LOWER}*"):
        hide(place)


def _make_layer(workspace: Workspace) -> None:
    for part in (workspace.upper, workspace.work):
        part.mkdir(parents=True)
    # the overlay's top folder takes owner and mode from here
    os.chown(workspace.upper, workspace.uid, AGENT_GID)
    workspace.upper.chmod(0o755)


def let_agent_in(path: Path, mode: int) -> None:
    """Sandboxes are the only ones of their group, and come by a mount: no other user reaches a state folder."""
    if os.geteuid() == 0:  # else engines see no file of ours, and no sandbox comes to this one
        os.chown(path, -1, AGENT_GID)
    path.chmod(mode)


def create_folder(workspace: Workspace, card: Card) -> None:
    """What one sandbox has on this host when its files are elsewhere."""
    workspace.folder.mkdir(parents=True)
    write_card(workspace.folder, card)
    workspace.egress.mkdir()


def remove_workspace(folder: Path) -> None:
    """Remove what one sandbox wrote. No link is followed, and a folder that is gone already is fine.

    Its card goes last: who is killed in the middle leaves something that has an owner.
    """
    for layer in folder.glob("merged*"):
        with suppress(SandboxError):  # it is not mounted, or not any more
            unmount(layer)
    _hide_below(folder)
    unmount_disk(folder)
    while folder.exists():
        with suppress(FileNotFoundError):  # a second reaper is at it too: whoever is last finds nothing
            for each in folder.iterdir():
                if each.is_dir() and not each.is_symlink():
                    remove_tree(each)
                elif each.name != CARD:
                    each.unlink()
            remove_tree(folder)
