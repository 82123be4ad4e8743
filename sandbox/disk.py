"""A file system of its own for what one sandbox writes, which ends at a size and at a number of files.

A sparse image that is mounted through a loop device: it takes from the disk what is in it (about 0.1 MB when empty),
and nothing from memory. See docs/decisions/0013-workspace-quota.md for what else was measured.
"""

from __future__ import annotations

import ctypes
import functools
import logging
import os
import shutil
import subprocess
import uuid
from pathlib import Path

from repo.temporary import temporary_folder

from .base import MIB, Finding, Limits
from .errors import SandboxError

DISK_LIMITS = frozenset({"workspace_bytes", "workspace_inodes"})
BLANKS = "disks"  # under the state folder: one empty image for each pair of limits, which sandboxes get copies of
IMAGE, MOUNT = "disk.ext4", "disk"  # in a sandbox's folder
BLOCK_BYTES, INODE_BYTES = 4096, 256
GROUP_BYTES = 8 * BLOCK_BYTES * BLOCK_BYTES  # what the bits of one block can map
# No journal and no room to grow: it never outlives its sandbox. What is never written stays a hole.
FORMAT = (
    *("mkfs.ext4", "-q", "-F", "-m", "0", "-b", str(BLOCK_BYTES), "-I", str(INODE_BYTES)),
    *("-O", "^has_journal,^resize_inode", "-E", "lazy_itable_init=1,nodiscard"),
)
# `discard` gives the space of deleted files back to this host; `noinit_itable` keeps the kernel from filling holes.
OPTIONS = "loop,nosuid,nodev,noatime,discard,noinit_itable"
PATH = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"  # nobody special has no sbin, and root by cron neither
TIMEOUT_S = 30.0  # 15 ms (measured); the rest is a busy machine
MNT_DETACH = 2
GIB = 1024 * MIB
LOW_BYTES = 5 * GIB  # one workspace may take 4
NO_DISKS = "workspaces have no limit of size: %s (the sandbox needs root, loop devices and mkfs.ext4 on this host)"

log = logging.getLogger(__name__)


@functools.cache
def held_limits() -> frozenset[str]:
    """What can be held here: `DISK_LIMITS`, or nothing. Found out by mounting one, once; a refusal is logged."""
    with temporary_folder("disk") as folder:
        try:
            mount_disk(folder, Limits(workspace_bytes=MIB, workspace_inodes=64), folder / BLANKS)
        except SandboxError as refusal:
            log.warning(NO_DISKS, refusal)
            return frozenset()
        unmount_disk(folder)
    return DISK_LIMITS


def disk_report(state_dir: Path) -> list[Finding]:
    """How workspaces are laid over checkouts here, and what holds them to their size."""
    free_bytes = shutil.disk_usage(next(path for path in (state_dir, *state_dir.parents) if path.exists())).free
    layout = "an overlay over the repository's one checkout, mounted by root on this machine"
    findings = [Finding("workspaces", layout)]
    if held_limits():
        findings.append(Finding("quota", "a disk of its own for each (ext4 in a sparse file), by size and files"))
    else:
        hint = "give the worker root, loop devices and mkfs.ext4 (Debian: e2fsprogs)"
        findings.append(Finding("quota", "none: a task may fill this machine's disk", hint))
    hint = "free some: `muster sandbox prune`, `docker system prune`" if free_bytes < LOW_BYTES else ""
    return [*findings, Finding("state folder", f"{state_dir}, {free_bytes / GIB:.1f} GiB free", hint)]


def mount_disk(folder: Path, limits: Limits, blanks: Path) -> None:
    """At `disk` in `folder`. `SandboxError` if it cannot be; then `unmount_disk` may be called, and need not."""
    mount = folder / MOUNT
    mount.mkdir()
    try:
        _copy(_blank(blanks, limits), folder / IMAGE)
        _run("mount", "-t", "ext4", "-o", OPTIONS, str(folder / IMAGE), str(mount))
    except (OSError, subprocess.SubprocessError) as error:
        said = getattr(error, "stderr", b"") or str(error).encode()
        message = said.decode(errors="replace").strip().rpartition("\n")[2]
        raise SandboxError(f"A workspace's disk cannot be made: {message}", hint="see `muster doctor`") from error


def unmount_disk(folder: Path) -> None:
    """At once for whoever looks anew; one that is not mounted is fine. The loop device goes with the last user."""
    ctypes.CDLL(None).umount2(os.fsencode(folder / MOUNT), MNT_DETACH)


def _blank(blanks: Path, limits: Limits) -> Path:
    """Made where there is none; by two at once, the second replaces the first's by its like."""
    blank = blanks / f"{limits.workspace_bytes}-{limits.workspace_inodes}.ext4"
    if not blank.exists():
        blanks.mkdir(parents=True, exist_ok=True)
        part = blanks / f"{uuid.uuid4().hex}.part"
        try:
            with part.open("xb") as image:
                image.truncate(_image_bytes(limits))
            _run(*FORMAT, "-N", str(_inodes(limits)), str(part))
            part.rename(blank)
        finally:
            part.unlink(missing_ok=True)
    return blank


def _inodes(limits: Limits) -> int:
    """Every group of blocks has the same number of them, in whole blocks: rounded down, where mkfs would round up."""
    step = -(-_image_bytes(limits) // GROUP_BYTES) * (BLOCK_BYTES // INODE_BYTES)
    return max(step, limits.workspace_inodes // step * step)


def _image_bytes(limits: Limits) -> int:
    """The table of files is not the task's affair; the rest of the bookkeeping comes out of its bytes."""
    return limits.workspace_bytes + limits.workspace_inodes * INODE_BYTES


def _copy(source: Path, target: Path) -> None:
    """Holes stay holes; a file system that cannot tell where they are is read through."""
    with source.open("rb") as whole, target.open("xb") as copy:
        size = os.fstat(whole.fileno()).st_size
        copy.truncate(size)
        at = 0
        while at < size:
            try:
                start = os.lseek(whole.fileno(), at, os.SEEK_DATA)
            except OSError:  # only a hole is left
                return
            at = os.lseek(whole.fileno(), start, os.SEEK_HOLE)
            for offset in range(start, at, MIB):
                if data := os.pread(whole.fileno(), min(MIB, at - offset), offset).rstrip(b"\0"):
                    os.pwrite(copy.fileno(), data, offset)


def _run(program: str, *words: str) -> None:
    found = shutil.which(program, path=PATH)
    if found is None:
        raise FileNotFoundError(f"{program} is not installed")
    subprocess.run([found, *words], check=True, capture_output=True, stdin=subprocess.DEVNULL, timeout=TIMEOUT_S)
