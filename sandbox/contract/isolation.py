"""What hostile commands try, and what they get."""

from __future__ import annotations

import os
from dataclasses import replace

from ..base import Command, SandboxSpec
from ..errors import SandboxLost
from .stage import Stage, raises

PROBES = {
    "is nobody special": ('test "$(id -u)" -gt 10000; echo $?; id -g', b"0\n10001\n"),
    "has no capabilities": ("awk '/^Cap(Eff|Bnd|Amb)/ {print $2}' /proc/self/status | sort -u", b"0000000000000000\n"),
    "gains no privileges": ("awk '/^NoNewPrivs/ {print $2}' /proc/self/status", b"1\n"),
    "is filtered": ("awk '/^Seccomp:/ {print $2}' /proc/self/status", b"2\n"),
    "cannot write the root": ("for d in / /etc /usr/bin /opt; do touch $d/x 2>/dev/null && echo wrote; done", b""),
    "has no network but itself": ("awk -F: 'NR > 2 {print $1}' /proc/net/dev | tr -d ' '", b"lo\n"),
    "has no engine": ("ls /var/run/docker.sock /run/docker.sock 2>/dev/null", b""),
    "cannot make a namespace": ("unshare --user --map-root-user true 2>/dev/null && echo made", b""),
    "cannot mount": ("mount -t tmpfs none /tmp 2>/dev/null && echo mounted", b""),
    "dumps no core": ("ulimit -c", b"0\n"),
    "sees no process of the host": ("ls -d /proc/[0-9]* | wc -l | awk '{print ($1 < 10)}'", b"1\n"),
    "cannot see the server's descriptors": ("ls /proc/1/fd 2>/dev/null", b""),
    "cannot read the server's memory": ("head -c 1 /proc/1/mem 2>/dev/null; cat /proc/1/environ 2>/dev/null", b""),
    "cannot stop the server": ("for s in $(seq 1 64); do kill -$s 1 2>/dev/null; done; echo on", b"on\n"),
}  # fmt: skip

ATTACH = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
PTRACE_ATTACH = 16
answer = libc.ptrace(PTRACE_ATTACH, 1, 0, 0)
print(answer, os.strerror(ctypes.get_errno()))
"""

FORGE = """
import json, os, struct
header = json.dumps({"id": 2, "type": "end", "exit_code": 0, "truncated_bytes": 0, "timed_out": False,
                     "duration_s": 0.0}).encode()
frame = struct.pack("!II", len(header), 0) + header
for way in ("/proc/1/fd/1", "/proc/1/fd/0", "/dev/console", "/proc/1/root/dev/stdout"):
    try:
        with open(way, "wb") as stream:
            stream.write(frame)
        print("wrote to", way)
    except OSError as error:
        pass
os.write(1, frame)  # our own output is data in a frame, not a frame
"""


async def a_command_is_held(stage: Stage) -> None:
    for name, (line, answer) in PROBES.items():
        assert (await stage.run(line)).output == answer, name
        assert (await stage.run("echo alive")).output == b"alive\n", name


async def the_server_cannot_be_traced(stage: Stage) -> None:
    result = await (await stage.box()).exec(Command(["/usr/bin/python3", "-c", ATTACH]))

    assert result.output == b"-1 Operation not permitted\n"
    assert (await stage.run("echo alive")).output == b"alive\n"


async def a_reply_cannot_be_forged(stage: Stage) -> None:
    result = await (await stage.box()).exec(Command(["/usr/bin/python3", "-c", FORGE]))

    assert b"wrote to" not in result.output
    assert (await stage.run("exit 5")).exit_code == 5


async def the_environment_holds_what_was_given_and_nothing_of_the_host(stage: Stage) -> None:
    os.environ["MUSTER_CONTRACT_CANARY"] = "canary-7f3a"
    try:
        sandbox = await stage.open(replace(SandboxSpec(stage.image), env={"GIVEN": "yes"}))
        seen = (await sandbox.exec(Command("env; cat /proc/*/environ 2>/dev/null | tr '\\0' '\\n'"))).output
    finally:
        del os.environ["MUSTER_CONTRACT_CANARY"]

    assert b"GIVEN=yes" in seen
    assert b"canary-7f3a" not in seen


async def nothing_of_the_host_is_there(stage: Stage) -> None:
    (stage.folder / "host-only").write_text("canary-5d21")

    assert b"canary" not in (await stage.run(f"cat {stage.folder}/host-only")).output


async def closing_twice_is_fine_and_ends_every_call(stage: Stage) -> None:
    sandbox = await stage.open(SandboxSpec(stage.image))
    await sandbox.close()
    await sandbox.close()

    with raises(SandboxLost, "closed"):
        await sandbox.exec(Command("true"))
