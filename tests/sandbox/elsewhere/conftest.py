"""Engines of our own that share nothing with this host: real ones, each in namespaces that end with it.

All that one writes lies on a file system in memory that only it sees; folders that are to be hidden from it have
nothing in them there. Without a network namespace an engine that has no bridge would take away the host's.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import threading
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from sandbox.driver import DockerDriver

CAN_START = os.geteuid() == 0 and shutil.which("dockerd") is not None
READY = "API listen on"
START_TIMEOUT_S = 120.0  # half a second
SHIFTED_BY = 100_000
ALONE = ("unshare", "--net", "--mount", "--propagation", "private")
# The folder that it works in, what is hidden from it, then the engine's own words. Its socket is where we see it, too.
# No port is ever published, so that no proxy of ports need be there.
START = """
set -e
work=$1 hidden=$2 shifted=$3; shift 3
echo "nobody:$shifted:65536" > "$work/ids"
mkdir -p "$work/own"
mount -t tmpfs none "$work/own"
chmod 711 "$work/own"  # the shifted users pass through
mount -t tmpfs none "$hidden"
if [ -n "$ROOTLESSKIT_STATE_DIR" ]; then
    mount -t tmpfs none /run
    export HOME="$work/own" XDG_RUNTIME_DIR="$work/own" PATH="$PATH:$work/own"
    ln -s /bin/true "$work/own/rootlesskit-docker-proxy"
else
    mount --bind "$work/ids" /etc/subuid
    mount --bind "$work/ids" /etc/subgid
fi
exec dockerd --data-root "$work/own/data" --exec-root "$work/own/run" --pidfile "$work/own/pid" --userland-proxy=false \
    --host "unix://$work/sock" --bridge=none --iptables=false --ip6tables=false "$@"
"""
# What the kit does that starts engines without root: they are root of a user namespace, and of nothing else.
NOBODY_ON_THIS_HOST = """
import ctypes, os, sys
NEWNS, NEWUSER, NEWNET = 0x20000, 0x10000000, 0x40000000
libc, (go_in, go_out), helper = ctypes.CDLL(None), os.pipe(), os.fork()
if helper == 0:
    os.read(go_in, 1)
    for kind in ("uid", "gid"):
        with open(f"/proc/{os.getppid()}/{kind}_map", "w") as file:
            file.write(f"0 {sys.argv[1]} 65536")
    os._exit(0)
assert libc.unshare(NEWUSER) == 0
os.write(go_out, b"x")
os.waitpid(helper, 0)
os.setgroups([]), os.setresgid(0, 0, 0), os.setresuid(0, 0, 0)
assert libc.unshare(NEWNS | NEWNET) == 0
os.environ["ROOTLESSKIT_STATE_DIR"] = "/run"
os.execv("/bin/sh", sys.argv[2:])
"""


@contextmanager
def engine(work: Path, hidden: Path, *words: str, rootless: bool = False) -> Iterator[str]:
    """Its address, while it runs. `work` is short: sockets lie below."""
    start = ["sh", "-c", START, "sh", str(work), str(hidden), str(SHIFTED_BY), *words]
    if rootless:
        start = [sys.executable, "-c", NOBODY_ON_THIS_HOST, str(SHIFTED_BY), *start, "--rootless"]
        work.chmod(0o777), hidden.chmod(0o777)
    else:
        work.chmod(0o711), start.insert(0, "--")
        start = [*ALONE, *start]
    process = subprocess.Popen(start, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    said: list[str] = []
    ready, reader = threading.Event(), threading.Thread(target=lambda: listen(), daemon=True)

    def listen() -> None:
        assert process.stderr is not None
        for line in process.stderr:
            said.append(line)
            if READY in line:
                ready.set()
        ready.set()  # it has ended

    reader.start()
    try:
        assert ready.wait(START_TIMEOUT_S) and any(READY in line for line in said), "".join(said[-20:])
        yield f"unix://{work}/sock"
    finally:
        process.terminate()
        process.wait()
        reader.join()


def give_image(image: str, address: str) -> None:
    """From this host's engine to another."""
    save = subprocess.Popen(["docker", "save", image], stdout=subprocess.PIPE)
    load = ["docker", "--host", address, "load", "--quiet"]
    subprocess.check_call(load, stdin=save.stdout, stdout=subprocess.DEVNULL)
    assert save.wait() == 0


@dataclass(frozen=True, slots=True)
class Far:
    """An engine that shifts user ids and does not see `folder`, where state folders are."""

    address: str
    folder: Path
    image: str

    def docker(self, *words: str, stdin: bytes = b"") -> str:
        argv = ["docker", "--host", self.address, *words]
        return subprocess.run(argv, input=stdin, stdout=subprocess.PIPE, check=True).stdout.decode()

    def of_owner(self, owner: str) -> list[str]:
        by_owner = ["--filter", f"label=muster.owner={owner}", "--quiet"]
        return (self.docker("ps", "--all", *by_owner) + self.docker("volume", "ls", *by_owner)).split()


@pytest.fixture(scope="module")
def far(image: str) -> Iterator[Far]:
    with tempfile.TemporaryDirectory(prefix="muster-far-") as short:
        work, hidden = Path(short), Path(short) / "hidden"
        hidden.mkdir()
        with engine(work, hidden, "--userns-remap=nobody:nogroup") as address:
            give_image(image, address)
            yield Far(address, hidden, image)


@pytest.fixture
def state_dir(far: Far, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A new one; and from now on engines are the one that does not see it."""
    monkeypatch.setenv("DOCKER_HOST", far.address)
    return far.folder / uuid.uuid4().hex


@pytest.fixture
async def distant(far: Far, state_dir: Path, owner: str) -> AsyncIterator[DockerDriver]:
    async with DockerDriver(state_dir, owner, allow_private_egress=True) as opened:
        yield opened
    assert far.of_owner(owner) == []
    assert list(state_dir.glob("sandboxes/*")) == []
