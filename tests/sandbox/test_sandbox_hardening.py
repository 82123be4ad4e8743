"""What hostile commands try, and what they get."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest

from sandbox.base import MIB, Command, ExecResult, Limits, SandboxSpec
from sandbox.driver import DockerDriver
from sandbox.errors import LimitExceeded, SandboxLost
from sandbox.opened import OpenSandbox

pytestmark = pytest.mark.docker
Run = Callable[..., Awaitable[ExecResult]]

PROBES = {
    "is nobody special": ("id -u; id -g", b"10001\n10001\n"),
    "has no capabilities": ("awk '/^Cap(Eff|Bnd|Amb)/ {print $2}' /proc/self/status | sort -u", b"0000000000000000\n"),
    "gains no privileges": ("awk '/^NoNewPrivs/ {print $2}' /proc/self/status", b"1\n"),
    "is filtered": ("awk '/^Seccomp:/ {print $2}' /proc/self/status", b"2\n"),
    "cannot write the root": ("for d in / /etc /usr/bin /opt/venv; do touch $d/x 2>/dev/null && echo wrote; done", b""),
    "has no network but itself": ("ls /sys/class/net", b"lo\n"),
    "has no engine": ("ls /var/run/docker.sock /run/docker.sock 2>/dev/null", b""),
    "cannot make a namespace": ("unshare --user --map-root-user true 2>/dev/null && echo made", b""),
    "cannot mount": ("mount -t tmpfs none /tmp 2>/dev/null && echo mounted", b""),
    "dumps no core": ("ulimit -c", b"0\n"),
    "cannot see the server's descriptors": ("ls /proc/1/fd 2>/dev/null", b""),
    "cannot read the server's memory": ("head -c 1 /proc/1/mem 2>/dev/null; cat /proc/1/environ 2>/dev/null", b""),
    "cannot stop the server": ("for s in $(seq 1 64); do kill -$s 1 2>/dev/null; done; echo on", b"on\n"),
}  # fmt: skip


@pytest.mark.parametrize(("line", "answer"), PROBES.values(), ids=PROBES.keys())
async def test_a_command(run: Run, line: str, answer: bytes):
    assert (await run(line)).output == answer
    assert (await run("echo alive")).output == b"alive\n"


async def test_the_server_cannot_be_traced(sandbox: OpenSandbox):
    attach = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
PTRACE_ATTACH = 16
answer = libc.ptrace(PTRACE_ATTACH, 1, 0, 0)
print(answer, os.strerror(ctypes.get_errno()))
"""
    result = await sandbox.exec(Command(["/usr/bin/python3", "-c", attach]))

    assert result.output == b"-1 Operation not permitted\n"
    assert (await sandbox.exec(Command("echo alive"))).output == b"alive\n"


async def test_a_reply_cannot_be_forged(sandbox: OpenSandbox):
    forge = """
import json, os, struct
header = json.dumps({"id": 2, "type": "end", "exit_code": 0, "truncated_bytes": 0, "timed_out": False,
                     "duration_s": 0.0}).encode()
frame = struct.pack("!II", len(header), 0) + header
ways = ["/proc/1/fd/1", "/proc/1/fd/0", "/dev/console", "/proc/1/root/dev/stdout"]
for way in ways:
    try:
        with open(way, "wb") as stream:
            stream.write(frame)
        print("wrote to", way)
    except OSError as error:
        pass
os.write(1, frame)  # our own output is data in a frame, not a frame
"""
    result = await sandbox.exec(Command(["/usr/bin/python3", "-c", forge]))

    assert b"wrote to" not in result.output
    assert (await sandbox.exec(Command("exit 5"))).exit_code == 5


async def test_python_first_on_the_path_is_not_what_runs_the_server(driver: DockerDriver, image: str):
    """Setup commands own /opt/venv: a python that they left there must not become PID 1."""
    spec = SandboxSpec(image, env={"PATH": "/opt/venv/bin:/usr/bin:/bin"})
    async with await driver.open(spec) as sandbox:
        result = await sandbox.exec(Command("tr '\\0' ' ' < /proc/1/cmdline; command -v python3"))

    assert result.output.startswith(b"/usr/bin/python3 -S -E ")
    assert result.output.endswith(b"/opt/venv/bin/python3\n")


async def test_a_fork_bomb_is_bounded_and_ends_with_its_time(driver: DockerDriver, image: str):
    async with await driver.open(SandboxSpec(image, limits=Limits(pids=128))) as sandbox:
        bomb = await sandbox.exec(Command("b() { b | b & }; b; sleep 1000", timeout_s=2, max_output_bytes=1000))
        assert bomb.exit_code != 0

        after = await sandbox.exec(Command("ps -e | wc -l", timeout_s=30))
        assert after.exit_code == 0
        assert int(after.output) < 10


async def test_processes_left_by_a_bomb_that_ended_early_do_not_block_the_next_command(
    driver: DockerDriver, image: str
):
    async with await driver.open(SandboxSpec(image, limits=Limits(pids=64))) as sandbox:
        await sandbox.exec(Command("i=0; while [ $i -lt 100 ]; do sleep 1000 & i=$((i+1)); done", timeout_s=30))
        assert (await sandbox.exec(Command("echo on", timeout_s=30))).output == b"on\n"


TAKE_ALL_PROCESSES = """
import subprocess, time
held = []
try:
    while True:
        held.append(subprocess.Popen(["sleep", "1000"]))
except BlockingIOError:
    print("full", flush=True)
    time.sleep(1000)
"""


async def test_out_of_processes_is_said_and_passes(driver: DockerDriver, image: str):
    async with await driver.open(SandboxSpec(image, limits=Limits(pids=64))) as sandbox:
        full = asyncio.Event()
        greedy = Command(["python3", "-c", TAKE_ALL_PROCESSES], timeout_s=2)

        async def ask_meanwhile() -> None:
            await full.wait()
            with pytest.raises(LimitExceeded):
                await sandbox.exec(Command("true"))

        await asyncio.gather(sandbox.exec(greedy, lambda _: full.set()), ask_meanwhile())
        assert (await sandbox.exec(Command("echo on", timeout_s=30))).output == b"on\n"


async def test_a_memory_bomb_kills_the_command_and_not_the_server(driver: DockerDriver, image: str):
    async with await driver.open(SandboxSpec(image, limits=Limits(memory_bytes=256 * MIB))) as sandbox:
        bomb = await sandbox.exec(Command("python3 -c 'x = bytearray(1 << 30)'", timeout_s=60))
        assert bomb.exit_code == 137
        assert (await sandbox.exec(Command("echo alive"))).output == b"alive\n"


async def test_temporary_space_ends_at_its_size_and_number_of_files(driver: DockerDriver, image: str):
    limits = Limits(tmp_bytes=16 * MIB, tmp_inodes=1000)
    async with await driver.open(SandboxSpec(image, limits=limits)) as sandbox:
        fill = await sandbox.exec(Command("head -c 1G /dev/zero > /tmp/big; stat -c %s /tmp/big; rm /tmp/big"))
        assert 15 * MIB <= int(fill.output.split(b"\n")[-2]) <= 16 * MIB
        flood = await sandbox.exec(Command("cd /tmp; seq 5000 | xargs touch 2>/dev/null; ls | wc -l"))
        assert 900 <= int(flood.output) <= 1000


async def test_a_sandbox_destroys_itself_when_its_time_is_over(driver: DockerDriver, image: str):
    limits = Limits(lifetime_s=1)
    async with await driver.open(SandboxSpec(image, limits=limits)) as sandbox:
        with pytest.raises(SandboxLost):
            await sandbox.exec(Command("sleep 1000", timeout_s=60))


async def test_the_environment_holds_what_was_given_and_nothing_of_the_host(
    driver: DockerDriver, image: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("CANARY_TOKEN", "canary-7f3a")
    async with await driver.open(replace(SandboxSpec(image), env={"GIVEN": "yes"})) as sandbox:
        seen = (await sandbox.exec(Command("env; cat /proc/*/environ 2>/dev/null | tr '\\0' '\\n'"))).output

    assert b"GIVEN=yes" in seen
    assert b"canary-7f3a" not in seen
