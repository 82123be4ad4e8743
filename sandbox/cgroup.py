"""A control group per sandbox: what its processes may use together, and the one handle that none of them escapes.

Both of the kernel's versions: one tree with files of its own names (v2), or a folder in the tree of each controller
(v1, also where v2 is mounted beside it for systemd).
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from .base import Limits
from .errors import EngineUnavailable, SandboxError

TREE = Path("/sys/fs/cgroup")
PARENT = "muster"  # the folder that holds all of ours
CONTROLLERS = ("memory", "pids", "cpu")
CPU_PERIOD_US = 100_000  # the kernel's default
# A frozen, a killed or an emptied group is one within milliseconds; a machine that swaps takes longer.
TRIES, PAUSE_S = 400, 0.005
FREEZE_TRIES, FREEZE_LOOKS = 40, 20  # 4 s in all, as patient as with the rest
HINT = "run the worker as root, outside of containers that hide /sys/fs/cgroup, or use the driver docker"


@dataclass(frozen=True, slots=True)
class ControlGroup:
    """`folders` has one folder for v2 (under ""), one per controller for v1."""

    folders: Mapping[str, Path]

    @property
    def entrances(self) -> list[Path]:
        """A process that writes its id into each of them is in the group, and so are its children."""
        return [folder / "cgroup.procs" for folder in self.folders.values()]

    async def freeze(self) -> None:
        """Whole or not at all: one that cannot be frozen goes on as before, and `SandboxError` says so.

        In v1 a process that waits for a child to start its program (vfork) is not frozen if the child was first: then
        both go on for a moment, until the program has started.
        """
        for _ in range(FREEZE_TRIES):
            if await self._turn("1", "FROZEN", FREEZE_LOOKS):
                return
            await self.thaw()
        raise SandboxError("The kernel did not freeze the sandbox.", hint="a process in it waits for ever for a child")

    async def thaw(self) -> None:
        if not await self._turn("0", "THAWED", TRIES):
            raise SandboxError("The kernel did not thaw the sandbox.")

    def kill(self) -> None:
        """Everything in the group, whoever it belongs to. Frozen processes die when they are thawed.

        One that may not be killed keeps none of the others alive, and the group: `remove` says so.
        """
        for pid in chain.from_iterable(map(_members, self.entrances)):
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)

    async def remove(self) -> None:
        """Kill what is left and remove the folders; those that are gone already are fine.

        `SandboxError` for one that stays: what is dismantled after it would never be found again.
        """
        for folder in self.folders.values():
            for _ in range(TRIES):
                try:
                    folder.rmdir()
                except FileNotFoundError:
                    break
                except OSError:  # still a process in it
                    self.kill()
                    self._let_die()
                    await asyncio.sleep(PAUSE_S)  # the kernel has no event for an empty group in v1
                else:
                    break
            else:
                raise SandboxError(f"The control group {folder} cannot be removed.", hint="see what runs in it")

    def _let_die(self) -> None:
        """In v1 a frozen process dies when it is thawed, and a worker may have died while it held them frozen."""
        if "freezer" in self.folders:
            with suppress(OSError):  # as above; whether the folder goes is seen
                (self.folders["freezer"] / "freezer.state").write_text("THAWED")

    async def _turn(self, v2: str, v1: str, looks: int) -> bool:
        """Whether it came to pass. `SandboxLost` is the caller's to say: a group that is gone is a sandbox that is
        gone."""
        if "" in self.folders:
            switch, wanted, seen = self.folders[""] / "cgroup.freeze", v2, self.folders[""] / "cgroup.events"
            told = f"frozen {v2}"
        else:
            switch = seen = self.folders["freezer"] / "freezer.state"
            wanted = told = v1
        switch.write_text(wanted)
        for _ in range(looks):
            if told in seen.read_text():
                return True
            await asyncio.sleep(PAUSE_S)
        return False


def _members(entrance: Path) -> list[int]:
    try:
        return [int(pid) for pid in entrance.read_text().split()]
    except OSError:  # the group is gone, or goes while it is read: two may remove it at once
        return []


def groups_version() -> str:
    """Of the control groups here; `EngineUnavailable` where none can be made."""
    folders = group_of("").folders.values()
    if any(not os.access(folder.parent, os.W_OK) for folder in folders):
        raise EngineUnavailable("Control groups cannot be written here.", hint=HINT)
    return f"control groups {'v2' if len(folders) == 1 else 'v1'}"


def group_of(name: str) -> ControlGroup:
    """Where the group of this name stands, made or not."""
    if (TREE / "cgroup.controllers").exists():
        return ControlGroup({"": TREE / PARENT / name})
    return ControlGroup({controller: TREE / controller / PARENT / name for controller in (*CONTROLLERS, "freezer")})


def create_group(name: str, limits: Limits) -> ControlGroup:
    """`SandboxError` where groups cannot be made: limits that do not hold are none."""
    group = group_of(name)
    try:
        for folder in group.folders.values():
            folder.mkdir(parents=True)
        _write_limits(group, limits)
    except OSError as error:
        raise SandboxError(f"Control groups cannot be written: {error}.", hint=HINT) from error
    return group


def _write_limits(group: ControlGroup, limits: Limits) -> None:
    quota_us = int(limits.cpus * CPU_PERIOD_US)
    if "" in group.folders:
        _delegate(group.folders[""].parent)
        files = {"memory.max": limits.memory_bytes, "memory.swap.max": 0, "pids.max": limits.pids}
        values = {group.folders[""] / name: str(value) for name, value in files.items()}
        values[group.folders[""] / "cpu.max"] = f"{quota_us} {CPU_PERIOD_US}"
    else:
        memory = group.folders["memory"]
        values = {memory / "memory.limit_in_bytes": str(limits.memory_bytes)}
        if (memory / "memory.memsw.limit_in_bytes").exists():  # only where the kernel counts swap
            values[memory / "memory.memsw.limit_in_bytes"] = str(limits.memory_bytes)
        values[group.folders["pids"] / "pids.max"] = str(limits.pids)
        values[group.folders["cpu"] / "cpu.cfs_quota_us"] = str(quota_us)
    for file, value in values.items():
        file.write_text(value)


def _delegate(parent: Path) -> None:
    """In v2 a folder's children have only the controllers that it hands down."""
    for folder in (parent.parent, parent):
        (folder / "cgroup.subtree_control").write_text(" ".join(f"+{name}" for name in CONTROLLERS))
