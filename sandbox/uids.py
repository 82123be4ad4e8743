"""A user of its own for each sandbox of this host. What the kernel counts by user, and what it lets one do to what is
his, then ends at the sandbox: see docs/decisions/0038-a-user-for-each-sandbox.md.

A checkout belongs to the one user `AGENT_UID`. A sandbox of another user is shown it through a mount that says his
number where the disk has that one, so that no file is touched.
"""

from __future__ import annotations

import functools
import logging
import os
import secrets
import subprocess
import threading
import time
import uuid
from collections.abc import Set
from contextlib import suppress
from pathlib import Path

from repo.removal import remove_tree

from . import kernel
from .base import Finding
from .errors import SandboxError

AGENT_UID = 10001  # of checkouts, of our images, and of setups, which change what belongs to him
AGENT_GID = 10001  # of every sandbox: the kernel counts nothing by group
# Above what distributions hand out for dynamic users, and below 2^21: older tar formats hold no larger number.
FIRST_UID, UIDS = 2_000_000, 65_536
PROBE, PROBE_AGE_S = "probe-users-", 60  # 30 ms (measured); whoever takes longer was killed over it
HINT = "take a kernel from 5.19 on, and a state folder on ext4, xfs or btrfs, with util-linux's `unshare`"

log = logging.getLogger(__name__)
_mappable: dict[int, bool] = {}  # by file system
_asking = threading.Lock()  # several that open at once ask, and tell, once


def uid_for(sandboxes: Path, checkout: Path) -> int:
    """One that no other sandbox of this folder has, at random, so that those of other state folders hardly have it
    either; `AGENT_UID` where this host cannot show `checkout` to another user."""
    with _asking:
        if not (maps_owners(sandboxes.parent) and _is_mappable(checkout)):
            return AGENT_UID
    return drawn(_taken(sandboxes))


def drawn(taken: Set[int]) -> int:
    """`taken` are of ours. Where all are, two have one, which is better than none."""
    while (uid := FIRST_UID + secrets.randbelow(UIDS)) in taken and len(taken) < UIDS:
        pass
    return uid


def _taken(sandboxes: Path) -> set[int]:
    found = set[int]()
    for folder in sandboxes.iterdir() if sandboxes.is_dir() else ():
        with suppress(OSError):  # it is closed meanwhile
            found |= {upper.stat().st_uid for upper in folder.glob("disk/upper*")}
    return {uid for uid in found if uid in range(FIRST_UID, FIRST_UID + UIDS)}


def show(folder: Path, place: Path, uid: int) -> None:
    """Mount `folder` at `place`, read-only, with `uid` for `AGENT_UID`. `Unsupported` where it cannot be."""
    namespace = _user_namespace(uid)
    try:
        tree = kernel.copy_of_mount(folder)
        try:
            kernel.map_owners(tree, namespace)
            place.mkdir(exist_ok=True)
            kernel.attach(tree, place)
        finally:
            os.close(tree)
    finally:
        os.close(namespace)


@functools.cache
def maps_owners(state_dir: Path) -> bool:
    """Found out by doing it, once: kernels differ, and so do file systems. A refusal is logged."""
    for left in state_dir.glob(f"{PROBE}*"):
        with suppress(OSError):
            if left.stat().st_mtime < time.time() - PROBE_AGE_S:
                _remove_probe(left)
    folder = state_dir / f"{PROBE}{uuid.uuid4().hex}"
    lower, shown, merged, upper, work = (folder / name for name in ("lower", "shown", "merged", "upper", "work"))
    try:
        for each in (lower, merged, upper, work):
            each.mkdir(parents=True)
        (lower / "file").touch()
        os.chown(lower / "file", AGENT_UID, AGENT_GID)
        show(lower, shown, FIRST_UID)
        kernel.mount("overlay", merged, f"lowerdir={shown},upperdir={upper},workdir={work}", kernel.NOSUID)
        return (merged / "file").stat().st_uid == FIRST_UID
    except (SandboxError, OSError) as refusal:
        log.warning("all sandboxes are one user to this host's kernel: %s (%s)", refusal, HINT)
        return False
    finally:
        if folder.exists():
            _remove_probe(folder)


def _remove_probe(folder: Path) -> None:
    for name in ("merged", "shown"):
        hide(folder / name)
    remove_tree(folder)


def hide(place: Path) -> None:
    """At once for whoever looks anew; one where nothing is shown is fine."""
    with suppress(SandboxError):
        kernel.unmount(place)
    if place.is_dir():
        place.rmdir()


def users_report(state_dir: Path) -> Finding:
    if maps_owners(state_dir):
        return Finding("users", f"one for each sandbox, from {FIRST_UID} to {FIRST_UID + UIDS - 1}")
    return Finding("users", f"all sandboxes are the user {AGENT_UID}: one can use up what is counted by user", HINT)


def _is_mappable(folder: Path) -> bool:
    """As its file system is, which is asked once. A refusal is logged."""
    device = folder.stat().st_dev
    if device not in _mappable:
        _mappable[device] = _can_be_mapped(folder)
    return _mappable[device]


def _can_be_mapped(folder: Path) -> bool:
    namespace = _user_namespace(FIRST_UID)
    try:
        tree = kernel.copy_of_mount(folder)
        try:
            kernel.map_owners(tree, namespace)
        finally:
            os.close(tree)
    except SandboxError as refusal:
        log.warning("sandboxes over %s are the user %d: %s (%s)", folder, AGENT_UID, refusal, HINT)
        return False
    finally:
        os.close(namespace)
    return True


def _user_namespace(uid: int) -> int:
    """As a descriptor: all numbers stay as they are but for `AGENT_UID`, which becomes `uid`. Nothing runs in it."""
    pipe, above = subprocess.PIPE, AGENT_UID + 1
    words = ("unshare", "--user", "sh", "-c", "echo && exec cat")  # it speaks from in there, and waits
    with subprocess.Popen(words, stdin=pipe, stdout=pipe, stderr=pipe) as held:
        assert held.stdout and held.stderr
        try:
            if not held.stdout.read(1):
                said = held.stderr.read().decode(errors="replace").strip().removeprefix("unshare: ")
                raise SandboxError(f"The kernel made no user namespace: {said}.")
            at = Path(f"/proc/{held.pid}")
            (at / "uid_map").write_text(f"0 0 {AGENT_UID}\n{AGENT_UID} {uid} 1\n{above} {above} {uid - above}\n")
            (at / "gid_map").write_text(f"0 0 {0xFFFFFFFF}\n")
            return os.open(at / "ns/user", os.O_RDONLY | os.O_CLOEXEC)
        finally:
            held.kill()
