"""What asks the kernel or the host for more than is a sandbox's due is refused. One sandbox for all of it."""

from __future__ import annotations

import socket
import subprocess
import uuid
from pathlib import Path
from typing import Any

import pytest

from sandbox.base import Command

pytestmark = pytest.mark.docker
PROBES = (Path(__file__).parent / "probes.py").read_text()
REFUSED = {
    "EPERM", "EACCES", "ENOENT", "ENOSYS", "EROFS", "ENXIO", "ESRCH", "ECONNREFUSED", "ENETUNREACH", "no such name",
    "EAFNOSUPPORT", "ENODEV", "EINVAL", "ENOSPC",
}  # fmt: skip


async def test_every_probe_is_refused(arena: Any):
    canary = f"canary-{uuid.uuid4().hex}"
    with (
        socket.create_server(("127.0.0.1", 0)) as port,
        socket.socket(socket.AF_UNIX) as named,
        subprocess.Popen(["sleep", "1000"], env={canary: "1"}) as process,
    ):
        named.bind(f"\0{canary}")
        named.listen()
        env = {"CANARY": canary, "HOST_PORT": str(port.getsockname()[1]), "HOST_PID": str(process.pid)}
        try:
            result = await arena.hostile.exec(Command(["python3", "-"], stdin=PROBES.encode(), env=env, timeout_s=60.0))
            assert process.poll() is None
        finally:
            process.kill()

    answers = dict(line.rpartition(": ")[::2] for line in result.output.decode().splitlines())
    assert result.exit_code == 0, result.output
    assert len(answers) > 90
    assert {name: answer for name, answer in answers.items() if answer not in REFUSED} == {}


FILES = """
import os
places = {line.split(" ")[4] for line in open("/proc/self/mountinfo")}
places |= {"/usr/bin/env", "/etc/passwd", "/workspace/mine"}
for place in sorted(places):
    if os.path.exists(place):
        found = os.stat(place)
        print(place, found.st_dev, found.st_ino)
"""


async def test_no_file_is_shared_with_a_neighbour(arena: Any):
    """By a shared one, a lock or a watch in one sandbox would be seen in another."""
    ours, theirs = [
        await sandbox.exec(Command(["python3", "-c", FILES])) for sandbox in (arena.hostile, arena.neighbour)
    ]

    both = set(ours.output.decode().splitlines()) & set(theirs.output.decode().splitlines())
    assert both == set()
    assert b"/run/muster-toolserver.py" in ours.output
