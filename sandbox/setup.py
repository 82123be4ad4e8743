"""The setup phase: what a project's tests need is installed once, and kept as an image.

It runs as the sandbox's own user, without capabilities, with a network that ends at the package index, without secrets
and without an agent. Kept are the image's file system, and what was written into the workspace and git ignores.
"""

from __future__ import annotations

import asyncio
import errno
import hashlib
import json
import os
import time
from collections.abc import Awaitable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from repo.cache import MOUNTS
from repo.keeping import IN_USE_S, Allowance, Kept, surplus
from repo.lock import file_lock, stamp_use, try_lock
from repo.removal import discard_tree
from repo.weight import sizes_bytes

from .base import WORKSPACE, Command, Limits, OnOutput, SandboxSpec, Setup, SetupLimits
from .container import HOME, SHM, TMP
from .errors import DiskFull, ImageMissing, LimitExceeded, SandboxError, SetupFailed
from .index import PackageIndex, host_index
from .opened import OpenSandbox
from .outlet import Outlet
from .setup_files import FOLDER, begin, finish, folder_of, stamp, used_at_s
from .setup_root import ask_inside, measured, require_within, size_told
from .uids import AGENT_UID

REPOSITORY = "muster-setup"
COMMAND_TIMEOUT_S = 1800.0  # a first install of a large project compiles things
# The start of the sandbox, the end of its processes and the commit of gigabytes.
MARGIN_S = 900
# Sandboxes of the image are users of other numbers, in the same group. Folders that a setup may write are file systems
# of their own; what is in the pruned ones is not kept, or shown to another user by its mount.
OPEN_UP = (
    "find / \\( -path /proc -o -path /sys -o -path /dev -o -path /tmp -o -path /workspace \\) -prune -o"
    f" -user {AGENT_UID} ! -type l -perm -400 ! -perm -040 -exec chmod g+rX {{}} + 2> /dev/null"
)
STAMP_EVERY_S = IN_USE_S / 4
OPENING_S = 60.0  # from the moment that a task is told of its image until its sandbox is made from it
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

    async def stamp(self, image: str) -> None:
        """It is used now."""
        ...

    async def kept(self, names: str) -> list[Kept]:
        """The images of these names, in which * stands for anything: what each has added to its base, and when it was
        used."""
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
    tag = setup_tag(await image_id_of(images, setup.image), setup)
    lock, setup_files = _lock_of(state_dir, tag), state_dir / FOLDER
    async with file_lock(lock):
        # Stamped before it is looked for: who makes room takes none that was stamped a moment ago.
        if not stamp(setup_files, tag) or await images.image_id(tag) is None:
            index = await host_index()
            if setup.egress_hosts is not None:
                index = replace(index, hosts=setup.egress_hosts)
            lifetime_s = int(COMMAND_TIMEOUT_S) * len(setup.commands) + MARGIN_S
            bounds = setup.limits
            limits = Limits(workspace_bytes=bounds.max_bytes, workspace_inodes=bounds.max_files, lifetime_s=lifetime_s)
            outlet = Outlet(tell=setup.tell, who=setup.tenant)
            spec = SandboxSpec(setup.image, setup.checkout, limits=limits, egress=index.hosts, outlet=outlet)
            async with await open_writable(spec, ca_bundle=index.ca_bundle) as sandbox:
                for command in setup.commands:
                    await _run(sandbox, command, index, on_output)
                await sandbox.exec(Command(OPEN_UP))
                await sandbox.kill_all()  # what still runs would be kept in the middle of a write
                await _keep(sandbox, setup, tag, images, state_dir)
            stamp_use(lock)
        elif _is_due(lock):
            await images.stamp(tag)
            stamp_use(lock)
    return tag


async def _keep(sandbox: OpenSandbox, setup: Setup, tag: str, images: ImageStore, state_dir: Path) -> None:
    assert sandbox.root is not None
    try:
        files = await asyncio.to_thread(begin, sandbox.folder)
        await sandbox.setup_files(files)
        found = await asyncio.to_thread(measured, files)
        taken = await sandbox.root.take()
        size_bytes = found[0] + taken[0]
        require_within(size_bytes, found[1] + taken[1], sandbox.root)
    except LimitExceeded as refusal:
        raise SetupFailed(str(refusal), output="", hint=refusal.hint) from refusal
    async with file_lock(state_dir / "locks" / f"setups-{owner_of(tag)}.lock"):
        await _make_room(setup.limits, size_bytes, tag, images, state_dir)
        await sandbox.root.commit(tag)
        await asyncio.to_thread(finish, files, state_dir / FOLDER, tag, setup)


async def _make_room(limits: SetupLimits, size_bytes: int, tag: str, images: ImageStore, state_dir: Path) -> None:
    """What the tenant has used the longest ago goes, and nothing of another's; nothing that may just be about to be
    opened."""
    if size_bytes > limits.kept_bytes:
        found = f"{size_told(size_bytes)}, more than is kept of a tenant: {size_told(limits.kept_bytes)}"
        hint = "install less, or have the operator raise `setups_max_gib_per_tenant`"
        raise SetupFailed(f"Setup leaves {found}.", output="", hint=hint)
    kept = await kept_setups(images, state_dir, f"{REPOSITORY}:{owner_of(tag)}-*")
    others = sorted((each for each in kept if each.name != tag), key=lambda each: each.used_at_s)
    count, total_bytes = len(others) + 1, sum(each.size_bytes for each in others) + size_bytes
    for each in others:
        if count <= limits.kept and total_bytes <= limits.kept_bytes:
            return
        used_at = max(each.used_at_s, used_at_s(state_dir / FOLDER, each.name))
        if time.time() - used_at > OPENING_S and await _discard(each, images, state_dir):
            count, total_bytes = count - 1, total_bytes - each.size_bytes
    if count > limits.kept or total_bytes > limits.kept_bytes:
        found = f"{len(others)} setups of {size_told(sum(each.size_bytes for each in others))}"
        hint = "wait for its tasks; the operator can raise `setups_max_per_tenant` and `setups_max_gib_per_tenant`"
        raise DiskFull(f"There is no room for another setup of this tenant: it has {found}, all in use.", hint=hint)


async def _discard(kept: Kept, images: ImageStore, state_dir: Path) -> bool:
    if not await images.discard(kept.name):
        return False
    folder = folder_of(state_dir / FOLDER, kept.name)
    if str(folder) not in MOUNTS.read_text():
        await asyncio.to_thread(discard_tree, folder)
    return True


async def kept_setups(images: ImageStore, state_dir: Path, names: str = f"{REPOSITORY}:*") -> list[Kept]:
    """The images of setups, with what lies beside them."""
    kept, setup_files = await images.kept(names), state_dir / FOLDER
    sizes = await sizes_bytes(each for one in kept if (each := folder_of(setup_files, one.name)).exists())
    return [
        Kept(
            one.name,
            one.size_bytes + sizes.get(folder_of(setup_files, one.name), 0),
            max(one.used_at_s, used_at_s(setup_files, one.name)),
            owner_of(one.name),
        )
        for one in kept
    ]


async def collect_setups(images: ImageStore, state_dir: Path, allowance: Allowance, *, now_s: float) -> list[Kept]:
    """Remove the images of setups that are too many or too old; what went. They are made again where one is missed."""
    kept = await kept_setups(images, state_dir)
    due = surplus(kept, allowance, now_s)
    gone = [each for each in due if await _discard(each, images, state_dir)]
    left = {folder_of(state_dir / FOLDER, each.name) for each in kept if each not in gone}
    for folder in (state_dir / FOLDER).glob("*"):  # of images that somebody else has removed
        is_old = folder.stat().st_mtime < now_s - IN_USE_S
        if folder not in left and is_old and str(folder) not in MOUNTS.read_text():
            await asyncio.to_thread(discard_tree, folder)
    locks = {_lock_of(state_dir, each.name) for each in kept if each not in gone}
    for lock in {*(state_dir / "locks").glob(f"{REPOSITORY}-*.lock")} - locks:
        with try_lock(lock) as is_mine:  # each text has had one, also one that failed
            if is_mine and lock.stat().st_mtime < now_s - IN_USE_S:
                lock.unlink()
    return gone


def owner_of(tag: str) -> str:
    """A tenant, as names of images have it; empty for one that an older release has made."""
    return tag.rpartition(":")[2].rpartition("-")[0]


def _lock_of(state_dir: Path, tag: str) -> Path:
    return state_dir / "locks" / f"{tag.replace(':', '-')}.lock"


def _is_due(lock: Path) -> bool:
    """An engine takes its time over a stamp, and half an hour more or less decides nothing."""
    return time.time() - lock.stat().st_mtime > STAMP_EVERY_S


async def image_id_of(images: ImageStore, image: str) -> str:
    """`ImageMissing` with a hint when it is not there."""
    image_id = await images.image_id(image)
    if image_id is None:
        raise ImageMissing(f"There is no image {image}.", hint=images.hint)
    return image_id


def setup_tag(image_id: str, setup: Setup) -> str:
    parts = json.dumps([image_id, setup.repository_key, setup.commit, list(setup.commands), OPEN_UP])
    owner, key = (hashlib.sha256(each.encode()).hexdigest() for each in (setup.tenant, parts))
    return f"{REPOSITORY}:{owner[:16]}-{key[:32]}"


async def _run(sandbox: OpenSandbox, command: str, index: PackageIndex, on_output: OnOutput | None) -> None:
    """The index is in the environment of this command only, so that nothing of it is kept."""
    assert sandbox.root is not None
    result = await sandbox.exec(Command(command, env=index.env, timeout_s=COMMAND_TIMEOUT_S), on_output)
    if result.exit_code == 0 and not result.timed_out:
        return
    how = (
        f"took longer than {COMMAND_TIMEOUT_S:.0f} s"
        if result.timed_out
        else f"ended with exit code {result.exit_code}"
    )
    tail = result.output[-TAIL_BYTES:].decode(errors="replace")
    if (full := await _full(sandbox)) is not None:
        raise SetupFailed(f"The setup command `{command}` {full[0]}.", output=tail, hint=full[1])
    refused = sandbox.refused_hosts
    hint = NO_PROGRAM if result.exit_code == NOT_FOUND else ""
    if os.strerror(errno.ENOSPC) in tail:  # and it has cleaned up behind itself, as installers do
        hint = f"{_bound(sandbox)}, and temporary files {size_told(Limits().tmp_bytes)}: {sandbox.root.hint}"
    if refused:
        hint = f"it asked for {', '.join(sorted(refused))}, which setup may not reach"
    said = next((f": {line.strip()[:LAST_CHARS]}" for line in reversed(tail.splitlines()) if line.strip()), "")
    raise SetupFailed(f"The setup command `{command}` {how}{said}", output=tail, hint=hint)


async def _full(sandbox: OpenSandbox) -> tuple[str, str] | None:
    """What had no room left, if anything, and what to do."""
    assert sandbox.root is not None
    bounded, found = sandbox.root.places, list[str]()
    with suppress(SandboxError):  # that the command failed is known
        await sandbox.kill_all()
        found = await ask_inside(sandbox, "full", [*bounded, WORKSPACE, TMP, HOME, SHM])
    if not found:
        return None
    if found[0] in bounded:
        return f"left no room in {found[0]}: {_bound(sandbox)}", sandbox.root.hint
    elsewhere = f", or set TMPDIR to a folder of {WORKSPACE}" if found[0] == TMP else ""
    return f"left no room in {found[0]}", f"have it remove there what it needs no more{elsewhere}"


def _bound(sandbox: OpenSandbox) -> str:
    assert sandbox.root is not None
    return f"a setup may write {size_told(sandbox.root.max_bytes)} and {sandbox.root.max_files:,} files"
