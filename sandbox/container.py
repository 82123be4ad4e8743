"""The container that a sandbox runs in, as the engine's API wants to hear it. Pure: every restriction stands here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .base import MIB, WORKSPACE, Limits, SandboxSpec
from .seccomp import program
from .workspace import AGENT_GID, AGENT_UID, Workspace

HOME = "/home/agent"
TMP = "/tmp"  # noqa: S108 - inside the container, where it is a file system of its own
SHM = "/dev/shm"  # noqa: S108 - inside
SERVER_PATH = "/run/muster-toolserver.py"
EGRESS_FOLDER = "/run/muster-egress"
PREFIX = "muster."
OWNER_LABEL = f"{PREFIX}owner"
EXPIRY_LABEL = f"{PREFIX}expires_at"
SHM_BYTES = 64 * MIB  # the engine's default, said aloud
# Python must come from where only root writes: setup commands may have changed what stands first on PATH.
START_SERVER = (
    "python=$(PATH=/usr/local/bin:/usr/bin:/bin command -v python3)"
    ' || { echo "the image has no python3" >&2; exit 127; };'
    f' exec "$python" -S -E {SERVER_PATH} "$0" "$1"'
)


@dataclass(frozen=True, slots=True)
class Opening:
    """Everything that one container is made from."""

    sandbox_id: str
    spec: SandboxSpec
    workspace: Workspace
    server: Path
    owner: str
    expires_at_s: int
    writable_root: bool = False  # for the setup phase only: what it installs is committed
    runtime: str | None = None

    @property
    def labels(self) -> dict[str, str]:
        theirs = {f"{PREFIX}{name}": value for name, value in self.spec.labels.items()}
        return {**theirs, OWNER_LABEL: self.owner, EXPIRY_LABEL: str(self.expires_at_s)}


def labels_of_spec(labels: Mapping[str, str]) -> dict[str, str]:
    """A container's labels but for the driver's own and the image's."""
    theirs = labels.keys() - {OWNER_LABEL, EXPIRY_LABEL}
    return {name.removeprefix(PREFIX): labels[name] for name in theirs if name.startswith(PREFIX)}


def container_config(opening: Opening) -> dict[str, Any]:
    return {
        "Image": opening.spec.image,
        "Entrypoint": ["/bin/sh", "-c", START_SERVER, str(opening.spec.limits.lifetime_s), program().hex()],
        "Cmd": [],
        "User": f"{AGENT_UID}:{AGENT_GID}",
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
    config: dict[str, Any] = {
        "AutoRemove": True,
        "NetworkMode": "none",
        "ReadonlyRootfs": not opening.writable_root,
        "CapDrop": ["ALL"],
        "SecurityOpt": ["no-new-privileges"],  # and the engine's default seccomp profile, and below it our own filter
        "IpcMode": "none",  # a namespace of its own, without the engine's /dev/shm, which has no limit of files
        "LogConfig": {"Type": "none", "Config": {}},  # else every reply is also written to the engine's disk
        "Memory": limits.memory_bytes,
        "MemorySwap": limits.memory_bytes,
        "NanoCpus": int(limits.cpus * 1e9),
        "PidsLimit": limits.pids,
        "Ulimits": [_ulimit("nofile", limits.open_files), _ulimit("core", 0)],
        "Tmpfs": {TMP: _tmpfs(limits, "1777"), HOME: _tmpfs(limits, "0755"), SHM: _shm(limits)},
        "Mounts": _mounts(opening),
    }
    if opening.runtime is not None:
        config["Runtime"] = opening.runtime
    return config


def _ulimit(name: str, value: int) -> dict[str, Any]:
    return {"Name": name, "Soft": value, "Hard": value}


def _tmpfs(limits: Limits, mode: str) -> str:
    """Executable, because builds run what they make. Owner given: over a folder of the image, the mode is ignored."""
    owner = f"uid={AGENT_UID},gid={AGENT_GID},mode={mode}"
    return f"rw,exec,nosuid,nodev,size={limits.tmp_bytes},nr_inodes={limits.tmp_inodes},{owner}"


def _shm(limits: Limits) -> str:
    return f"rw,noexec,nosuid,nodev,size={SHM_BYTES},nr_inodes={limits.shm_inodes},mode=1777"


def _mounts(opening: Opening) -> list[dict[str, Any]]:
    volume = {
        "NoCopy": True,  # an image's own /workspace must not be copied into the task's
        "Labels": opening.labels,
        "DriverConfig": {"Name": "local", "Options": opening.workspace.volume_options()},
    }
    mounts = [
        {
            "Type": "volume",
            "Source": opening.sandbox_id,
            "Target": WORKSPACE,
            "ReadOnly": opening.spec.read_only,
            "VolumeOptions": volume,
        },
        _bind(opening.server, SERVER_PATH),
    ]
    if opening.spec.has_network:
        mounts.append(_bind(opening.workspace.egress, EGRESS_FOLDER))
    return mounts


def _bind(source: Path, target: str) -> dict[str, Any]:
    return {"Type": "bind", "Source": str(source), "Target": target, "ReadOnly": True}
