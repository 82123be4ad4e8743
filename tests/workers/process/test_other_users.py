"""What another user of a worker's host can do to what it keeps there: nothing."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from envelope.messages import TaskInput, Workspace
from orchestrator.approvals import approve_in
from sandbox.egress import SOCKET_NAME

pytestmark = [pytest.mark.redis, pytest.mark.docker]

# Paths come as lines, and go out as lines with what could be done. A lock needs an open file, of any kind.
AS_NOBODY = """
import fcntl, os, socket, stat, sys
os.setgroups([]), os.setgid(65534), os.setuid(65534)
for path in sys.stdin.read().splitlines():
    done = []
    try:
        mode = os.lstat(path).st_mode
        done.append("look")
        if stat.S_ISSOCK(mode):
            socket.socket(socket.AF_UNIX).connect(path)
            done.append("connect")
    except OSError:
        pass
    for name, flags in (("read", os.O_RDONLY), ("write", os.O_WRONLY)):
        try:
            opened = os.open(path, flags | os.O_NONBLOCK)
            done.append(name)
            fcntl.flock(opened, fcntl.LOCK_SH | fcntl.LOCK_NB)
            done.append("lock")
        except OSError:
            pass
    if os.access(path, os.X_OK):
        done.append("enter")
    if done:
        print(path, *done)
"""

# In the sandbox: the proxy answers, and says what it thinks of a host that was not granted.
ASKS_THE_PROXY = """
import os, socket, urllib.parse
proxy = socket.create_connection(("127.0.0.1", urllib.parse.urlsplit(os.environ["http_proxy"]).port))
proxy.sendall(b"GET http://other.example.com/ HTTP/1.1\\r\\n\\r\\n")
assert proxy.recv(100).startswith(b"HTTP/1.1 403")
"""
# The files are those of a plain clone, whatever the worker keeps its own from.
LOOKS = 'test "$(stat -c %a . src src/greet.py | tr "\\n" " ")" = "755 755 644 "'


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """A folder that everybody of this host can enter, unlike pytest's; the state folder is in it."""
    folder = Path(tempfile.mkdtemp(prefix="muster-test-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def all_paths(folder: Path) -> list[str]:
    """Also what is in other file systems that are mounted below it."""
    found = [f"{parent}/{name}" for parent, folders, files in os.walk(folder) for name in (*folders, *files)]
    return [str(folder), *found]


def done_by_nobody(paths: list[str]) -> list[str]:
    command = [sys.executable, "-I", "-S", "-c", AS_NOBODY]
    told = subprocess.run(command, input="\n".join(paths), capture_output=True, text=True, check=True, timeout=60)
    return told.stdout.splitlines()


@pytest.mark.parametrize(
    ("driver", "before"), [("docker", None), ("docker", 0o755), ("bubblewrap", 0o755)],
    ids=["docker", "docker, in a folder of an earlier release", "bubblewrap"],
)  # fmt: skip
async def test_nobody_else_can_list_read_connect_to_or_lock_anything(
    tmp_path: Path, start_worker, fleet, repository: Path, driver: str, before: int | None
):
    """While a task uses the network that it was granted."""
    state = tmp_path / "state"
    if before:
        state.chmod(before)
    approve_in(state, str(repository), ["bash:make *"])
    roots = json.dumps([str(repository.parent)])
    worker = await start_worker(MUSTER_DRAIN_GRACE_S="0", MUSTER_ALLOWED_ROOTS=roots, MUSTER_SANDBOX_DRIVER=driver)
    head = subprocess.check_output(["git", "-C", repository, "rev-parse", "HEAD"], text=True).strip()
    request = await fleet.submit(
        input=TaskInput(params={"commands": [f"python3 -c '{ASKS_THE_PROXY}'", LOOKS, "sleep 600"]}),
        workspace=Workspace(path=str(repository), base=head),
        auth_scope=("bash:**", "edit:**", "network:forge.example.com"),
    )
    await fleet.until(request, "tool_call", title="sleep 600")

    paths = all_paths(state)
    [socket] = [path for path in paths if path.endswith(f"/egress/{SOCKET_NAME}")]
    names = {Path(path).name for path in paths}
    told = done_by_nobody(paths)
    modes = {path: os.lstat(path).st_mode & 0o777 for path in paths}
    status = Path(f"/proc/{worker.pid}/status").read_text()
    await fleet.transport.cancel(request.task_id, by="test", reason="done")
    await fleet.ended(request.task_id)
    worker.send_signal(signal.SIGTERM)
    await worker.communicate()

    assert {"keyring.json", "owners", "checkouts", "upper"} <= names
    assert told == [f"{state} look"]  # that it is there
    assert (modes[str(state)], modes[socket]) == (0o700, 0o660)
    assert {path: mode for path, mode in modes.items() if path.endswith(".lock") and mode != 0o600} == {}
    assert "Umask:\t0077" in status
