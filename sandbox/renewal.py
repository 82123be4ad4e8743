"""A sandbox as it was when it was opened, once nothing runs in it but its tool server: for shards that take turns.

All that commands can write is thrown away whole: the workspace gets an overlay of its own over the same checkout, and
each file system in memory is followed by an empty one. What else they can leave is looked at, and a sandbox that has
any of it is not handed on: message queues and shared memory of the kernel's, ports that connections still hold, and
another priority of the tool server, which its children would have from it.

The mounts are made from outside, by a thread that joins the sandbox's namespace of mounts and ends there. It goes to a
process that is held by a descriptor and was seen to have this very workspace, so that it can be no other's.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

from repo.removal import remove_tree

from . import kernel
from .base import WORKSPACE
from .container import HOME, QUEUES, SHM, TMP
from .errors import SandboxError, SandboxLost, Unsupported
from .view import Keeper
from .workspace import Workspace, add_layer

IN_MEMORY = (TMP, HOME, SHM)
SYSV = ("shm", "sem", "msg")
FLAGS = {"nosuid": kernel.NOSUID, "nodev": kernel.NODEV, "noexec": kernel.NOEXEC}
ESTABLISHED, LISTENS = "01", "0A"  # in /proc/PID/net/tcp: the tool server's own, where there is a way out
# In /proc/PID/stat, counted after the name in brackets: priority, niceness, real-time priority, policy.
SCHEDULING = (15, 16, 37, 38)

Traits = tuple[object, ...]


@dataclass
class Renewal:
    """`keeper_of` is told where the workspace is from now on."""

    process: int
    process_fd: int
    workspace: Workspace
    traits: Traits
    keeper_of: Callable[[Workspace], Keeper]

    @property
    def keeper(self) -> Keeper:
        return self.keeper_of(self.workspace)

    async def renew(self) -> None:
        """Nothing may run in it. `SandboxError` if it must not be used again."""
        if _traits(self.process) != self.traits:
            raise SandboxError("The tool server's priority was changed.")
        if _ports_taken(self.process):
            raise SandboxError("A command left ports that nobody can take yet.")
        former, self.workspace = self.workspace, await asyncio.to_thread(add_layer, self.workspace)
        tree = kernel.copy_of_mount(self.workspace.merged)
        try:
            await kernel.in_a_thread_of_its_own(lambda: self._exchange(tree))
        finally:
            os.close(tree)
        await asyncio.to_thread(_forget, former)

    def _exchange(self, tree: int) -> None:
        mounts = _mounts(Path(f"/proc/{self.process}/mountinfo").read_text())
        places = [_of_kind("tmpfs", mounts, place) for place in IN_MEMORY]
        _of_kind("mqueue", mounts, QUEUES)  # the only place where they can be seen: without it all would look well
        kernel.leave_folders()
        kernel.join(self.process_fd, kernel.MESSAGES)
        for kind in SYSV:
            if len(Path(f"/proc/sysvipc/{kind}").read_text().splitlines()) > 1:
                raise SandboxError(f"A command left shared objects of the kernel's ({kind}).")
        kernel.join(self.process_fd, kernel.MOUNTS)
        if any(Path(QUEUES).iterdir()):
            raise SandboxError("A command left message queues.")
        kernel.unmount(Path(WORKSPACE))
        kernel.attach(tree, Path(WORKSPACE))
        for each in places:
            kernel.unmount(Path(each.place))
            kernel.mount(each.kind, Path(each.place), each.options, each.flags)


async def renewal_of(
    process: int, mounted: Path, workspace: Workspace, keeper_of: Callable[[Workspace], Keeper], undo: AsyncExitStack
) -> Renewal | None:
    """`mounted`: the workspace on this host. None where `process`, said to be the sandbox's first, is not to be
    found from here: the engine counts processes otherwise, or has a kernel of its own.

    It is renewed at once. The first overlay is held for as long as the sandbox stands, by an engine or a launcher, and
    with it each file that was ever seen in it.
    """
    try:
        process_fd = os.pidfd_open(process)
        undo.callback(os.close, process_fd)
        if not await asyncio.to_thread(mounted.samefile, f"/proc/{process}/root{WORKSPACE}"):
            return None
    except OSError:
        return None
    renewal = Renewal(process, process_fd, workspace, _traits(process), keeper_of)
    await renewal.renew()
    return renewal


@dataclass(frozen=True, slots=True)
class _Mount:
    place: str
    kind: str
    flags: int
    options: str


def _mounts(told: str) -> dict[str, _Mount]:
    """By place, the uppermost, as the kernel tells them, which no command can change."""
    found: dict[str, _Mount] = {}
    for line in told.splitlines():
        words, _, rest = line.partition(" - ")
        place, options = words.split()[4:6]
        kind, _, given = rest.split(" ", 2)
        flags = sum(FLAGS.get(each, 0) for each in options.split(","))
        found[place] = _Mount(place, kind, flags, given.removeprefix("rw").removeprefix(","))
    return found


def _of_kind(kind: str, mounts: Mapping[str, _Mount], place: str) -> _Mount:
    mount = mounts.get(place)
    if mount is None or mount.kind != kind:
        raise Unsupported(f"The sandbox has no file system of its own at {place}.")
    return mount


def _traits(process: int) -> Traits:
    """What commands can change of the tool server, which is of their own user."""
    try:
        fields: Sequence[str] = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        return (*(fields[each] for each in SCHEDULING), os.sched_getaffinity(process), kernel.io_priority(process))
    except OSError as error:
        raise SandboxLost("The sandbox is gone.") from error


def _ports_taken(process: int) -> bool:
    """By connections that are at their end: the kernel keeps their ports for a minute."""
    try:
        tables = [Path(f"/proc/{process}/net/{name}") for name in ("tcp", "tcp6")]
        lines = [line for table in tables if table.exists() for line in table.read_text().splitlines()[1:]]
    except OSError as error:
        raise SandboxLost("The sandbox is gone.") from error
    return any(line.split()[3] not in (ESTABLISHED, LISTENS) for line in lines)


def _forget(former: Workspace) -> None:
    if former.turn:
        kernel.unmount(former.merged)
        former.merged.rmdir()
    for part in (former.upper, former.work):
        remove_tree(part)
