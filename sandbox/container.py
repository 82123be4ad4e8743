"""The container that a sandbox runs in, as the engine's API wants to hear it. Pure: every restriction stands here."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .base import MIB, WORKSPACE, Limits, SandboxSpec
from .seccomp import program
from .toolserver import ELSEWHERE
from .uids import AGENT_GID, AGENT_UID
from .workspace import Workspace

HOME = "/home/agent"
TMP = "/tmp"  # noqa: S108 - inside the container, where it is a file system of its own
SHM = "/dev/shm"  # noqa: S108 - inside
QUEUES = "/dev/mqueue"
ACCOUNTS = "/etc/passwd"
SERVER_PATH = "/run/muster-toolserver.py"
TOOLS_FOLDER = "/run/muster-tools"  # from the engine's stock; see toolserver/elsewhere.py
BASE_FOLDER = "/run/muster-base"
ENTRY_BYTES = 1024  # what the kernel keeps of a file in memory beside its pages (measured)
WORKSPACE_SHARE = 2  # half of a sandbox's memory
SIDE_BYTES, SIDE_FILES = 256 * MIB, 10_000
EGRESS_FOLDER = "/run/muster-egress"
PREFIX = "muster."
OWNER_LABEL = f"{PREFIX}owner"
EXPIRY_LABEL = f"{PREFIX}expires_at"
SHM_BYTES = 64 * MIB  # the engine's default, said aloud
# After the id of a sandbox: of what its workspace is written through, where its own container may not.
WRITER = "-writer"
ROOT_VOLUME = "-root"  # likewise, and a number: of what is mounted where setup commands may write the root
ROOT_VOLUMES = "/run/muster-root"  # where the container sees them that takes what came of it


def sandbox_of(name: str) -> str:
    """Whose a container or volume is, by its name."""
    return re.sub(rf"({WRITER}|{ROOT_VOLUME}\d+)$", "", name)


def start_server(path: str) -> str:
    """Python must come from where only root writes: setup commands may have changed what stands first on PATH."""
    return (
        "python=$(PATH=/usr/local/bin:/usr/bin:/bin command -v python3)"
        ' || { echo "the image has no python3" >&2; exit 127; };'
        f' exec "$python" -S -E {path} "$0" "$1"'
    )


@dataclass(frozen=True, slots=True)
class Stocked:
    """What an engine has that cannot mount a file of ours: volumes of its own, to be mounted read-only, and a workspace
    in memory. Its owner is told as the engine's host counts."""

    tools: str
    base: str | None  # the packed checkout
    base_bytes: int  # when it is laid out
    base_files: int
    uid: int
    gid: int
    writer_of: str = ""  # the sandbox whose workspace this container writes; empty: its own

    @property
    def base_memory_bytes(self) -> int:
        return self.base_bytes + self.base_files * ENTRY_BYTES

    def workspace_bytes(self, limits: Limits) -> int:
        """Of the task's own. What is written counts as memory, of which the commands need some, too."""
        return min(limits.workspace_bytes, limits.memory_bytes // WORKSPACE_SHARE)

    def volume_options(self, limits: Limits) -> dict[str, str]:
        size = self.base_bytes + self.workspace_bytes(limits)
        files = self.base_files + limits.workspace_inodes
        given = f"size={size},nr_inodes={files},uid={self.uid},gid={self.gid},mode=0755"
        return {"type": "tmpfs", "device": "tmpfs", "o": f"nosuid,nodev,{given}"}


@dataclass(frozen=True, slots=True)
class Place:
    """A folder of an image that the sandbox's user may write, and what is in it."""

    path: str
    uid: int
    gid: int
    mode: int
    size_bytes: int
    files: int


@dataclass(frozen=True, slots=True)
class SetupRoot:
    """What a setup phase writes of an image's root: a volume for each place, in folders of `disk`, which has a size, or
    in memory. The container of the commands has them in their places, on a root that it cannot write. A second one
    fills them first, and in the end takes what has changed. No such command runs there, and its root is kept."""

    sandbox_id: str
    places: tuple[Place, ...]
    max_bytes: int  # beside what the image had there
    max_files: int
    disk: Path | None
    first_uid: int = 0
    first_gid: int = 0
    is_taker: bool = False  # the second one

    @property
    def base_bytes(self) -> int:
        return sum(each.size_bytes for each in self.places)

    @property
    def base_files(self) -> int:
        return sum(each.files for each in self.places)

    @property
    def memory_bytes(self) -> int:
        """Of the engine's host, which counts it as the container's that wrote it."""
        rooms = () if self.disk is not None else map(self._room, self.places)
        return sum(size + files * ENTRY_BYTES for size, files in rooms)

    @property
    def volumes(self) -> list[str]:
        return [f"{self.sandbox_id}{ROOT_VOLUME}{number}" for number in range(len(self.places))]

    def target(self, number: int) -> str:
        return f"{ROOT_VOLUMES}/{number}" if self.is_taker else self.places[number].path

    def options(self, number: int) -> dict[str, str]:
        if self.disk is not None:
            return {"type": "none", "device": str(self.disk / str(number)), "o": "bind"}
        place = self.places[number]
        size, files = self._room(place)
        owner = f"uid={self.first_uid + place.uid},gid={self.first_gid + place.gid},mode={place.mode:o}"
        return {"type": "tmpfs", "device": "tmpfs", "o": f"nosuid,nodev,size={size},nr_inodes={files},{owner}"}

    @property
    def paths(self) -> list[str]:
        return [place.path for place in self.places]

    @property
    def main(self) -> int:
        """Where most lies most is installed."""
        return max(range(len(self.places)), key=lambda number: self.places[number].size_bytes)

    def _room(self, place: Place) -> tuple[int, int]:
        """In memory each has its own. Others than the main one are such as /var/tmp."""
        is_side = place is not self.places[self.main]
        max_bytes = min(self.max_bytes, SIDE_BYTES) if is_side else self.max_bytes
        max_files = min(self.max_files, SIDE_FILES) if is_side else self.max_files
        return place.size_bytes + max_bytes, place.files + max_files


@dataclass(frozen=True, slots=True)
class Opening:
    """Everything that one container is made from."""

    sandbox_id: str
    spec: SandboxSpec
    workspace: Workspace
    server: Path
    owner: str
    expires_at_s: int
    runtime: str | None = None
    stocked: Stocked | None = None  # where the engine sees no file of ours
    accounts: Path | None = None  # in the place of the image's
    root: SetupRoot | None = None  # for the setup phase only

    @property
    def labels(self) -> dict[str, str]:
        theirs = {f"{PREFIX}{name}": value for name, value in self.spec.labels.items()}
        return {**theirs, OWNER_LABEL: self.owner, EXPIRY_LABEL: str(self.expires_at_s)}


def labels_of_spec(labels: Mapping[str, str]) -> dict[str, str]:
    """A container's labels but for the driver's own and the image's."""
    theirs = labels.keys() - {OWNER_LABEL, EXPIRY_LABEL}
    return {name.removeprefix(PREFIX): labels[name] for name in theirs if name.startswith(PREFIX)}


def renumbered(accounts: bytes, uid: int) -> bytes:
    """`/etc/passwd` with another number for the image's user.

    >>> renumbered(b"root:x:0:0::/root:/bin/sh\\nagent:x:10001:10001::/home/agent:/bin/sh\\n", 7).splitlines()[1]
    b'agent:x:7:10001::/home/agent:/bin/sh'
    """
    lines = [line.split(b":") for line in accounts.split(b"\n")]
    for fields in lines:
        if fields[2:3] == [b"%d" % AGENT_UID]:
            fields[2] = b"%d" % uid
    return b"\n".join(b":".join(fields) for fields in lines)


def container_config(opening: Opening) -> dict[str, Any]:
    """What the engine is asked to make, in the words of its API."""
    start = start_server(SERVER_PATH if opening.stocked is None else f"{TOOLS_FOLDER}/{ELSEWHERE[-1].name}")
    return {
        "Image": opening.spec.image,
        "Entrypoint": ["/bin/sh", "-c", start, str(opening.spec.limits.lifetime_s), program().hex()],
        "Cmd": [],
        "User": f"{opening.workspace.uid}:{AGENT_GID}",
        "WorkingDir": "/",  # any other that is missing would be made in the image
        "Env": [f"{name}={value}" for name, value in _environment(opening.spec.env).items()],
        "Labels": opening.labels,
        "Hostname": "sandbox",
        "Tty": False,
        "OpenStdin": True,
        "StdinOnce": True,  # a worker that dies closes the server's input, which ends the container
        "AttachStdin": True,
        "AttachStdout": True,
        "AttachStderr": True,
        "NetworkDisabled": True,
        "Healthcheck": {"Test": ["NONE"]},  # the image's own would start processes behind the server's back
        "HostConfig": _host_config(opening),
    }


def _environment(env: Mapping[str, str]) -> dict[str, str]:
    return {"HOME": HOME, **env}


def _host_config(opening: Opening) -> dict[str, Any]:
    limits = opening.spec.limits
    memory_bytes = limits.memory_bytes + (opening.stocked.base_memory_bytes if opening.stocked else 0)
    memory_bytes += opening.root.memory_bytes if opening.root else 0
    config: dict[str, Any] = {
        "AutoRemove": True,
        "NetworkMode": "none",
        "ReadonlyRootfs": opening.root is None or not opening.root.is_taker,
        "CapDrop": ["ALL"],
        "SecurityOpt": ["no-new-privileges"],  # and the engine's default seccomp profile, and below it our own filter
        "IpcMode": "none",  # a namespace of its own, without the engine's /dev/shm, which has no limit of files
        "LogConfig": {"Type": "none", "Config": {}},  # else every reply is also written to the engine's disk
        "Memory": memory_bytes,
        "MemorySwap": memory_bytes,
        "NanoCpus": int(limits.cpus * 1e9),
        "PidsLimit": limits.pids,
        "Ulimits": [_ulimit("nofile", limits.open_files), _ulimit("core", 0)],
        "Tmpfs": {TMP: _tmpfs(opening, "1777"), HOME: _tmpfs(opening, "0755"), SHM: _shm(limits)},
        "Mounts": [
            *(_mounts(opening) if opening.stocked is None else _stocked_mounts(opening, opening.stocked)),
            *(_root_mounts(opening, opening.root) if opening.root else ()),
        ],
    }
    if opening.runtime is not None:
        config["Runtime"] = opening.runtime
    return config


def _ulimit(name: str, value: int) -> dict[str, Any]:
    return {"Name": name, "Soft": value, "Hard": value}


def _tmpfs(opening: Opening, mode: str) -> str:
    """Executable, because builds run what they make. Owner given: over a folder of the image, the mode is ignored."""
    limits = opening.spec.limits
    owner = f"uid={opening.workspace.uid},gid={AGENT_GID},mode={mode}"
    return f"rw,exec,nosuid,nodev,size={limits.tmp_bytes},nr_inodes={limits.tmp_inodes},{owner}"


def _shm(limits: Limits) -> str:
    return f"rw,noexec,nosuid,nodev,size={SHM_BYTES},nr_inodes={limits.shm_inodes},mode=1777"


def _mounts(opening: Opening) -> list[dict[str, Any]]:
    if opening.root is not None and opening.root.is_taker:  # it has no workspace
        return [_bind(opening.server, SERVER_PATH)]
    mounts = [_workspace(opening, opening.sandbox_id, opening.workspace.volume_options())]
    mounts.append(_bind(opening.server, SERVER_PATH))
    if opening.accounts is not None:
        mounts.append(_bind(opening.accounts, ACCOUNTS))
    if opening.spec.has_network:
        mounts.append(_bind(opening.workspace.egress, EGRESS_FOLDER))
    return mounts


def _stocked_mounts(opening: Opening, stocked: Stocked) -> list[dict[str, Any]]:
    if opening.root is not None and opening.root.is_taker:
        return [_stock(stocked.tools, TOOLS_FOLDER)]
    options = stocked.volume_options(opening.spec.limits)
    mounts = [_workspace(opening, stocked.writer_of or opening.sandbox_id, options)]
    mounts.append(_stock(stocked.tools, TOOLS_FOLDER))
    if stocked.base is not None:
        mounts.append(_stock(stocked.base, BASE_FOLDER))
    return mounts


def _workspace(opening: Opening, volume: str, options: Mapping[str, str]) -> dict[str, Any]:
    return {**_volume(opening, volume, WORKSPACE, options), "ReadOnly": opening.spec.read_only}


def _root_mounts(opening: Opening, root: SetupRoot) -> list[dict[str, Any]]:
    names = enumerate(root.volumes)
    return [_volume(opening, name, root.target(number), root.options(number)) for number, name in names]


def _volume(opening: Opening, name: str, target: str, options: Mapping[str, str]) -> dict[str, Any]:
    return {
        "Type": "volume",
        "Source": name,
        "Target": target,
        "ReadOnly": False,
        "VolumeOptions": {
            "NoCopy": True,  # an image's own /workspace must not be copied into the task's
            "Labels": opening.labels,
            "DriverConfig": {"Name": "local", "Options": options},
        },
    }


def _stock(volume: str, target: str) -> dict[str, Any]:
    options = {"NoCopy": True}
    return {"Type": "volume", "Source": volume, "Target": target, "ReadOnly": True, "VolumeOptions": options}


def _bind(source: Path, target: str) -> dict[str, Any]:
    return {"Type": "bind", "Source": str(source), "Target": target, "ReadOnly": True}
