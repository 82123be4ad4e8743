"""What a sandbox takes that does nothing: of the disk, and of the memory, with what its engine needs for it."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterable
from pathlib import Path

BLOCK_BYTES = 512
ENGINE = ("dockerd", "containerd")


def disk_bytes(folder: Path) -> int:
    """As allocated. What is mounted below lies in an image file of this folder, and counts once."""
    device, total = folder.stat().st_dev, 0
    for parent, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if (Path(parent) / name).lstat().st_dev == device]
        total += sum((Path(parent) / name).lstat().st_blocks * BLOCK_BYTES for name in [".", *folders, *files])
    return total


def engine_bytes() -> int:
    """Of the engine's own two processes, whoever else uses them."""
    named = {int(name): _read(f"/proc/{name}/comm").strip() for name in os.listdir("/proc") if name.isdigit()}
    return sum(_shared_out(pid) for pid, name in named.items() if name in ENGINE)


def containers_bytes(names: Iterable[str]) -> int:
    """Of containers' processes, and of the shim above each that belongs to the engine."""
    said = subprocess.check_output(["docker", "inspect", "--format", "{{.State.Pid}}", *names], text=True)
    return _family_bytes({_parent(int(pid)) for pid in said.split()})


def children_bytes() -> int:
    """Of all that this process has started."""
    return _family_bytes({os.getpid()}) - _shared_out(os.getpid())


def _family_bytes(roots: set[int]) -> int:
    family = set(roots)
    parents = {int(name): _parent(int(name)) for name in os.listdir("/proc") if name.isdigit()}
    while more := {pid for pid, parent in parents.items() if parent in family} - family:
        family |= more
    return sum(_shared_out(pid) for pid in family)


def _parent(pid: int) -> int:
    found = re.findall(r"^PPid:\s+(\d+)", _read(f"/proc/{pid}/status"), re.MULTILINE)
    return int(found[0]) if found else 0


def _shared_out(pid: int) -> int:
    """Each page divided by how many use it."""
    found = re.findall(r"^Pss:\s+(\d+) kB", _read(f"/proc/{pid}/smaps_rollup"), re.MULTILINE)
    return int(found[0]) * 1024 if found else 0


def _read(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError:  # it has ended
        return ""
