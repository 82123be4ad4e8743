"""The namespaces that a bubblewrap sandbox runs in, as mounts and command lines: every restriction stands here."""

from __future__ import annotations

import os
import re
import shlex
import stat
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from . import kernel
from .base import WORKSPACE, SandboxSpec
from .cgroup import ControlGroup
from .container import EGRESS_FOLDER, HOME, QUEUES, SERVER_PATH, SHM, SHM_BYTES, TMP, start_server
from .errors import SandboxError
from .uids import AGENT_GID, AGENT_UID
from .workspace import Workspace

# In the launcher's own mount namespace, over a folder that every system has.
STAGE = "/mnt"
WORKSPACE_PLACE, SERVER_PLACE, EGRESS_PLACE, ROOT_PLACE, TMP_PLACE, HOME_PLACE, SHM_PLACE = (
    f"{STAGE}/{name}" for name in ("workspace", "server", "egress", "root", "tmp", "home", "shm")
)
PATH = "/opt/venv/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# Of an image's root; what is not here is a file system of the sandbox's own, or nothing at all.
ROOT_PARTS = ("bin", "etc", "lib", "lib32", "lib64", "libx32", "opt", "sbin", "srv", "usr", "var")
# Of this host's own root: programs, and what they need to start. Its /etc holds secrets, so it is named file by file.
HOST_PARTS = (
    "bin", "lib", "lib32", "lib64", "libx32", "sbin", "usr", "etc/alternatives", "etc/group", "etc/ld.so.cache",
    "etc/ld.so.conf", "etc/ld.so.conf.d", "etc/localtime", "etc/mime.types", "etc/nsswitch.conf", "etc/passwd",
    "etc/ssl/certs",
)  # fmt: skip
DEVICES = ("full", "null", "random", "tty", "urandom", "zero")  # that bubblewrap binds
# bubblewrap drops privileges as far as it got them; as nobody special it has none to begin with.
AS_NOBODY_SPECIAL = (
    f"--regid={AGENT_GID}", "--clear-groups", "--no-new-privs", "--bounding-set=-all", "--inh-caps=-all", "--",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Root:
    """`parts` of the folder `base` are what a sandbox sees of a root; all of it can be written with `writable`, which
    is for the setup phase only."""

    base: Path
    parts: Sequence[str]
    writable: bool = False


@dataclass(frozen=True, slots=True)
class Opening:
    """Everything that one sandbox is made from."""

    sandbox_id: str
    spec: SandboxSpec
    workspace: Workspace
    server: Path
    root: Root
    group: ControlGroup
    filter_fd: int  # of the system call filter


def launcher(opening: Opening, mounts_fd: int) -> list[str]:
    """Run as root, among the mounts that `mounts_of` gave, so that these are gone when the sandbox is. The descriptor
    is this process's, and stays open until the sandbox has begun: no command in it inherits it."""
    limits = opening.spec.limits
    become = ("setpriv", f"--reuid={opening.workspace.uid}", *AS_NOBODY_SPECIAL)
    lines = ["set -e", *(f"echo $$ > {shlex.quote(str(entrance))}" for entrance in opening.group.entrances)]
    # The worker's own memory is bounded, a sandbox's by its group.
    lines += [f"ulimit -n {limits.open_files}", "ulimit -c 0", "ulimit -S -d $(ulimit -H -d)"]
    lines += [f"exec {shlex.join([*become, *bubblewrap(opening)])}"]
    return ["nsenter", f"--mount=/proc/{os.getpid()}/fd/{mounts_fd}", "/bin/sh", "-c", "\n".join(lines)]


async def mounts_of(opening: Opening) -> int:
    """A mount namespace with all that bubblewrap is to bind, as a descriptor. By calls to the kernel: as programs, of
    which each looks through the list of mounts, they took longer than all else, and with each sandbox more."""
    return await kernel.in_a_thread_of_its_own(partial(_mounted, opening))


def _mounted(opening: Opening) -> int:
    kernel.leave_mounts()
    # State folders are for their owner's eyes: nobody special finds what he needs here.
    kernel.mount("tmpfs", Path(STAGE), "mode=0755", 0)
    for place, source in _sources(opening).items():
        if source.is_dir():
            Path(place).mkdir()
        else:
            Path(place).touch()
        kernel.mount("", Path(place), "", kernel.BIND, source=str(source))
    limits = opening.spec.limits
    for place, size, inodes, mode in (
        (TMP_PLACE, limits.tmp_bytes, limits.tmp_inodes, "1777"),
        (HOME_PLACE, limits.tmp_bytes, limits.tmp_inodes, "0755"),
        (SHM_PLACE, SHM_BYTES, limits.shm_inodes, "1777"),
    ):
        owner = f"uid={opening.workspace.uid},gid={AGENT_GID}"
        Path(place).mkdir()
        options = f"size={size},nr_inodes={inodes},mode={mode},{owner}"
        kernel.mount("tmpfs", Path(place), options, kernel.NOSUID | kernel.NODEV)
    _make_devices()
    _unmount_other_sandboxes()
    return os.open("/proc/thread-self/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)


def _make_devices() -> None:
    """In the place of this host's, which bubblewrap binds: by these, a lock or a watch in one sandbox would be seen in
    another. Left as they are where making devices is not allowed, as in some containers."""
    place = Path(STAGE, "devices")
    place.mkdir()
    kernel.mount("tmpfs", place, "mode=0755", kernel.NOSUID)
    for name in DEVICES:
        device, own = Path("/dev", name), place / name
        with suppress(PermissionError):
            os.mknod(own, stat.S_IFCHR, device.stat().st_rdev)
            own.chmod(0o666)
            kernel.mount("", device, "", kernel.BIND, source=str(own))


def _unmount_other_sandboxes() -> None:
    """A mount namespace begins as a copy of this host's: what other sandboxes have mounted would stay for as long as
    this one lives, their loop devices with it."""
    for line in Path("/proc/thread-self/mountinfo").read_bytes().splitlines():
        place = line.split(b" ", 5)[4]
        if b"/muster-" in place:
            with suppress(SandboxError):  # what it lay on is gone already, and it with that
                kernel.unmount(Path(os.fsdecode(_unescaped(place))))


def _unescaped(place: bytes) -> bytes:
    """The kernel writes blanks and the like as octal numbers."""
    return re.sub(rb"\\([0-7]{3})", lambda found: bytes([int(found[1], 8)]), place)


def _sources(opening: Opening) -> dict[str, Path]:
    """What bubblewrap is to bind, by the place where it finds it."""
    sources = {WORKSPACE_PLACE: opening.workspace.merged, SERVER_PLACE: opening.server}
    if opening.spec.has_network:
        sources[EGRESS_PLACE] = opening.workspace.egress
    if opening.root.base != Path("/"):
        sources[ROOT_PLACE] = opening.root.base
    return sources


def make_places(root: Path) -> None:
    """Where things are bound to in a root that can be written: by root, because nobody special can make them."""
    for folder in ("proc", "dev", "run", TMP, HOME, WORKSPACE, EGRESS_FOLDER):
        place = root / folder.lstrip("/")
        if place.is_symlink():  # it would lead out, to this host
            raise SandboxError(f"The image's {folder} is a link.", hint="make it a folder")
        for each in reversed([each for each in (place, *place.parents) if not each.exists()]):
            each.mkdir()
            each.chmod(0o755)
    (root / SERVER_PATH.lstrip("/")).touch()


def bubblewrap(opening: Opening) -> list[str]:
    """The command line of the sandbox's first process; mounts are in the order in which they lie on each other."""
    spec = opening.spec
    environment = {"PATH": PATH, "HOME": HOME, "LANG": "C.UTF-8", "PIP_DISABLE_PIP_VERSION_CHECK": "1", **spec.env}
    return [
        "bwrap",
        # Inside, its user has the number that the image knows.
        *("--unshare-user", "--disable-userns", "--uid", str(AGENT_UID), "--gid", str(AGENT_GID)),
        *("--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts", "--unshare-cgroup"),
        *("--hostname", "sandbox", "--die-with-parent", "--new-session", "--as-pid-1"),
        *("--seccomp", str(opening.filter_fd)),
        "--clearenv",
        *(word for name, value in environment.items() for word in ("--setenv", name, value)),
        *_root(opening.root),
        *("--proc", "/proc", "--dev", "/dev", "--bind", SHM_PLACE, SHM, "--mqueue", QUEUES, "--remount-ro", "/dev"),
        *("--bind", TMP_PLACE, TMP, "--bind", HOME_PLACE, HOME),
        *("--ro-bind" if spec.read_only else "--bind", WORKSPACE_PLACE, WORKSPACE),
        *("--ro-bind", SERVER_PLACE, SERVER_PATH),
        *(("--ro-bind", EGRESS_PLACE, EGRESS_FOLDER) if spec.has_network else ()),
        *(() if opening.root.writable else ("--remount-ro", "/")),
        *("--chdir", "/", "--", "/bin/sh", "-c", start_server(SERVER_PATH), str(spec.limits.lifetime_s), ""),
    ]


def _root(root: Root) -> list[str]:
    """Links of a root stay links: they point at other parts of it."""
    place = Path("/" if root.base == Path("/") else ROOT_PLACE)
    if root.writable:
        return ["--bind", str(place), "/"]
    words: list[str] = []
    for part in root.parts:
        source = root.base / part
        if source.is_symlink() and "/" not in part:
            words += ["--symlink", str(source.readlink()), f"/{part}"]
        elif source.exists():
            words += ["--ro-bind", str(place / part), f"/{part}"]
    return words
