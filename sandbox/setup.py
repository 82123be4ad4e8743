"""The setup phase: what a project's tests need is installed once, and kept as an image.

It runs as the sandbox's own user, without capabilities, with a network that ends at the package index, without secrets
and without an agent. Kept are the image's file system, and what was written into the workspace and git ignores.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections.abc import Awaitable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from repo.cache import MOUNTS, sizes_bytes
from repo.keeping import IN_USE_S, Allowance, Kept, surplus
from repo.lock import file_lock, stamp_use
from repo.removal import discard_tree

from .base import Command, Limits, OnOutput, SandboxSpec, Setup
from .errors import ImageMissing, SetupFailed
from .index import PackageIndex, host_index
from .opened import OpenSandbox
from .outlet import Outlet
from .setup_files import FOLDER, begin, finish, folder_of
from .uids import AGENT_UID

REPOSITORY = "muster-setup"
COMMAND_TIMEOUT_S = 1800.0  # a first install of a large project compiles things
# The start of the sandbox, the end of its processes and the commit of gigabytes.
MARGIN_S = 900
# Sandboxes of the image are users of other numbers, in the same group.
OPEN_UP = f"find / -xdev -user {AGENT_UID} ! -type l ! -perm -040 -exec chmod g+rX {{}} + 2> /dev/null"
STAMP_EVERY_S = IN_USE_S / 4
NOT_FOUND = 127  # as every shell says it
NO_PROGRAM = "the sandbox image lacks a program: name one that has it in MUSTER_IMAGE (docs/sandbox/images.md)"
LAST_CHARS = 200  # of the last line, which mostly says what it lacked
TAIL_BYTES = 4000  # fifty lines: an installer says at the end what it lacked


class ImageStore(Protocol):
    """Where a driver has its images. `hint`: how somebody comes to one that is missing."""

    @property
    def hint(self) -> str: ...

    async def image_id(self, image: str) -> str | None:
        """Another one when the image is another; None when there is no such image."""
        ...

    async def commit(self, name: str, image: str, config: Mapping[str, Any]) -> None:
        """Keep the root of the sandbox `name`, without its workspace, as `image`."""
        ...

    async def stamp(self, image: str) -> None:
        """It is used now."""
        ...

    async def kept(self, repository: str) -> list[Kept]:
        """The images of this name, whatever their tag: what each has added to its base, and when it was used."""
        ...

    async def discard(self, image: str) -> bool:
        """Whether it went: one that a sandbox uses stays."""
        ...


class OpenWritable(Protocol):
    """Opens a sandbox whose root can be written, and whose commands believe the authorities in `ca_bundle`."""

    def __call__(self, spec: SandboxSpec, *, ca_bundle: Path | None) -> Awaitable[OpenSandbox]: ...


async def ensure_setup(
    setup: Setup, images: ImageStore, open_writable: OpenWritable, state_dir: Path, on_output: OnOutput | None
) -> str:
    """See `SandboxDriver.prepare_image`. `state_dir` is a folder that all processes of this host share."""
    if not setup.commands:
        return setup.image
    key = setup_key(await image_id_of(images, setup.image), setup)
    tag = f"{REPOSITORY}:{key}"
    lock, setup_files = state_dir / "locks" / f"setup-{key}.lock", state_dir / FOLDER
    async with file_lock(lock):
        if not folder_of(setup_files, tag).exists() or await images.image_id(tag) is None:
            index = await host_index()
            if setup.egress_hosts is not None:
                index = replace(index, hosts=setup.egress_hosts)
            limits = Limits(lifetime_s=int(COMMAND_TIMEOUT_S) * len(setup.commands) + MARGIN_S)
            outlet = Outlet(tell=setup.tell)
            spec = SandboxSpec(setup.image, setup.checkout, limits=limits, egress=index.hosts, outlet=outlet)
            async with await open_writable(spec, ca_bundle=index.ca_bundle) as sandbox:
                for command in setup.commands:
                    await _run(sandbox, command, index, on_output)
                await sandbox.exec(Command(OPEN_UP))
                await sandbox.kill_all()  # what still runs would be committed in the middle of a write
                files = await asyncio.to_thread(begin, setup_files, tag)
                await sandbox.setup_files(files)
                await images.commit(sandbox.id, tag, {"Labels": {"muster.setup": tag}})
                await asyncio.to_thread(finish, files, tag, setup)
        elif _is_due(lock):
            await images.stamp(tag)
            stamp_use(lock)
    return tag


async def kept_setups(images: ImageStore, state_dir: Path) -> list[Kept]:
    """The images of setups, with what lies beside them."""
    kept = await images.kept(REPOSITORY)
    sizes = await sizes_bytes(each for one in kept if (each := folder_of(state_dir / FOLDER, one.name)).exists())
    return [
        replace(one, size_bytes=one.size_bytes + sizes.get(folder_of(state_dir / FOLDER, one.name), 0)) for one in kept
    ]


async def collect_setups(images: ImageStore, state_dir: Path, allowance: Allowance, *, now_s: float) -> list[Kept]:
    """Remove the images of setups that are too many or too old; what went. They are made again where one is missed."""
    kept = await kept_setups(images, state_dir)
    gone = [each for each in surplus(kept, allowance, now_s) if await images.discard(each.name)]
    left = {folder_of(state_dir / FOLDER, each.name) for each in kept if each not in gone}
    for folder in (state_dir / FOLDER).glob("*"):  # also of images that somebody else has removed
        is_old = folder.stat().st_mtime < now_s - IN_USE_S
        if folder not in left and is_old and str(folder) not in MOUNTS.read_text():
            await asyncio.to_thread(discard_tree, folder)
    return gone


def _is_due(lock: Path) -> bool:
    """An engine takes its time over a stamp, and half an hour more or less decides nothing."""
    return time.time() - lock.stat().st_mtime > STAMP_EVERY_S


async def image_id_of(images: ImageStore, image: str) -> str:
    """`ImageMissing` with a hint when it is not there."""
    image_id = await images.image_id(image)
    if image_id is None:
        raise ImageMissing(f"There is no image {image}.", hint=images.hint)
    return image_id


def setup_key(image_id: str, setup: Setup) -> str:
    parts = json.dumps([image_id, setup.repository_key, setup.commit, list(setup.commands)])
    return hashlib.sha256(parts.encode()).hexdigest()[:32]


async def _run(sandbox: OpenSandbox, command: str, index: PackageIndex, on_output: OnOutput | None) -> None:
    """The index is in the environment of this command only, so that nothing of it is kept."""
    result = await sandbox.exec(Command(command, env=index.env, timeout_s=COMMAND_TIMEOUT_S), on_output)
    if result.exit_code == 0 and not result.timed_out:
        return
    how = (
        f"took longer than {COMMAND_TIMEOUT_S:.0f} s"
        if result.timed_out
        else f"ended with exit code {result.exit_code}"
    )
    tail = result.output[-TAIL_BYTES:].decode(errors="replace")
    refused = sandbox.refused_hosts
    hint = NO_PROGRAM if result.exit_code == NOT_FOUND else ""
    if refused:
        hint = f"it asked for {', '.join(sorted(refused))}, which setup may not reach"
    said = next((f": {line.strip()[:LAST_CHARS]}" for line in reversed(tail.splitlines()) if line.strip()), "")
    raise SetupFailed(f"The setup command `{command}` {how}{said}", output=tail, hint=hint)
