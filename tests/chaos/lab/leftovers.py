"""All that sandboxes of one state folder can leave on a host, wherever that is kept."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

GROUPS = Path("/sys/fs/cgroup")
SANDBOX_ID = re.compile(r"muster-[0-9a-f]{32}")


def leftovers(state_dir: Path, jobs_dir: Path, *, owners: str) -> list[str]:
    """What is there now, in words; `owners` begins the name of each owner. Empty when nothing is."""
    state = str(state_dir)
    found = [f"{kind} {name}" for kind, name in (*_of_the_engine(owners), *_processes(state))]
    found += [
        f"mount {line.split()[4]}" for line in Path("/proc/self/mountinfo").read_text().splitlines() if state in line
    ]
    found += [f"loop device for {file}" for file in _loop_files() if file.startswith(state)]
    below = list(_below(state_dir))
    found += [f"folder {path}" for path in below if path.parent.name == "sandboxes"]
    found += [f"socket {path}" for path in below if path.is_socket()]
    found += [f"folder {path}" for path in jobs_dir.iterdir()]
    return [*found, *(f"control group {path}" for path in _groups_of_nobody())]


def tool_servers(state_dir: Path) -> list[int]:
    """Their processes, as this host numbers them."""
    return [
        pid for pid in _pids_with(str(state_dir)) if "/run/muster-toolserver.py" in _text(pid, "cmdline").split("\0")
    ]


def launchers(state_dir: Path) -> list[int]:
    """What holds a sandbox of bubblewrap from outside, as an engine's shim does a container."""
    return [pid for pid in _pids_with(str(state_dir)) if _text(pid, "comm").strip() == "bwrap"]


def _of_the_engine(owners: str) -> Iterator[tuple[str, str]]:
    shown = '{{.Label "muster.owner"}} {{.%s}}'
    for kind, command in (
        ("container", ["docker", "ps", "--all", "--format", shown % "Names"]),
        ("volume", ["docker", "volume", "ls", "--format", shown % "Name"]),
    ):
        for line in subprocess.check_output([*command, "--filter", "label=muster.owner"], text=True).splitlines():
            if line.startswith(owners):
                yield kind, line


def _processes(state: str) -> Iterator[tuple[str, str]]:
    own = os.readlink("/proc/self/ns/mnt")
    for pid in _pids_with(state):
        with suppress(OSError):
            if os.readlink(f"/proc/{pid}/ns/mnt") != own:
                yield "process", f"{pid} {_text(pid, 'cmdline')[:80]!r}"


def _pids_with(state: str) -> list[int]:
    """Processes that see something of the state folder mounted."""
    pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    return [pid for pid in pids if state in _text(pid, "mountinfo")]


def _text(pid: int, name: str) -> str:
    try:
        return Path(f"/proc/{pid}/{name}").read_text(errors="replace")
    except OSError:  # it ended meanwhile
        return ""


def _below(top: Path) -> Iterator[Path]:
    """All paths, of folders that are being removed meanwhile as well: `rglob` raises for those."""
    for folder, folders, files in os.walk(top):
        yield from (Path(folder, name) for name in (*folders, *files))


def _loop_files() -> Iterator[str]:
    for device in Path("/sys/block").glob("loop*/loop/backing_file"):
        with suppress(OSError):  # let go of meanwhile
            yield device.read_text().strip()


def _groups_of_nobody() -> list[Path]:
    """Others may use this host: a group whose sandbox has something mounted is theirs."""
    mounted = set(SANDBOX_ID.findall(Path("/proc/self/mountinfo").read_text()))
    groups: list[Path] = []
    for parent in (GROUPS / "muster", *(each / "muster" for each in GROUPS.iterdir())):
        with suppress(FileNotFoundError, NotADirectoryError):  # no sandbox of this host has a group there
            groups += [group for group in parent.iterdir() if group.name.startswith("muster-")]
    return [group for group in groups if group.name not in mounted]
