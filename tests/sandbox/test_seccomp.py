"""What the filter of system calls lets pass: as the kernel reads it, for both machines, and asked of this kernel."""

from __future__ import annotations

import errno
import json
import platform
import struct
import subprocess
import sys

import pytest

from sandbox.errors import SandboxError
from sandbox.seccomp import ALLOWED, LAST_KNOWN, program

ALLOW, KILL, EPERM, ENOSYS = 0x7FFF0000, 0x80000000, 0x00050000 | errno.EPERM, 0x00050000 | errno.ENOSYS
MACHINES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
UPROBE = 336  # x86_64: about its own probes the kernel asks no filter (kernel/seccomp.c, 6.18)
FAMILIES = {1, 2, 10, 16}


def verdict(machine: str, number: int, argument: int = 0, architecture: int | None = None) -> int:
    """What the kernel makes of it: classic BPF, as far as a filter of ours uses it."""
    steps = list(struct.iter_unpack("=HBBI", program(machine)))
    data = struct.pack("=IIQQ", number, architecture or MACHINES[machine][1], 0, argument)
    at, value = 0, 0
    while True:
        code, if_true, if_false, operand = steps[at]
        match code:
            case 0x20:
                (value,) = struct.unpack_from("=I", data, operand)
                holds = False
                if_false = 0
            case 0x15:
                holds = value == operand
            case 0x35:
                holds = value >= operand
            case 0x45:
                holds = bool(value & operand)
            case _:
                assert code == 0x06
                return operand
        at += 1 + (if_true if holds else if_false)


@pytest.mark.parametrize("machine", MACHINES)
def test_what_is_on_the_list_passes_and_nothing_else(machine: str):
    column = MACHINES[machine][0]
    judged = {(56, 220)[column], (41, 198)[column], (53, 199)[column], (302, 261)[column], 435}
    allowed = {numbers[column] for numbers in ALLOWED.values()} - {None}

    for number in set(range(LAST_KNOWN + 200)) - judged:
        right = ALLOW if number in allowed else EPERM if number <= LAST_KNOWN else ENOSYS
        assert verdict(machine, number) == right, number
    assert not judged & allowed


@pytest.mark.parametrize("machine", MACHINES)
def test_some_calls_pass_with_some_arguments_only(machine: str):
    clone, socket, pair, prlimit = ((56, 220), (41, 198), (53, 199), (302, 261))
    column = MACHINES[machine][0]

    for call in (socket[column], pair[column]):
        assert {family for family in range(64) if verdict(machine, call, family) == ALLOW} == FAMILIES
    assert verdict(machine, clone[column], 0x003D0F00) == ALLOW  # a thread's
    for bit in (17, 25, 26, 27, 28, 29, 30):
        assert verdict(machine, clone[column], 1 << bit | 17) == EPERM
    assert verdict(machine, 435) == ENOSYS
    assert (verdict(machine, prlimit[column], 0), verdict(machine, prlimit[column], 1)) == (ALLOW, EPERM)


def test_other_architectures_and_numbers_that_go_around_the_list():
    assert verdict("x86_64", 0, architecture=0x40000003) == KILL  # 32-bit programs
    assert verdict("x86_64", 0x4000_0000) == EPERM  # x32
    with pytest.raises(SandboxError, match="riscv64"):
        program("riscv64")


ASK = """
import ctypes, errno, json, os, socket, subprocess, sys, threading
from sandbox.toolserver.server import set_call_filter
os.setgroups([]); os.setgid(65534); os.setuid(65534)  # nobody, to whom nothing else of the kernel's opens
libc = ctypes.CDLL(None, use_errno=True)
assert libc.prctl(38, 1, 0, 0, 0) == 0  # no new privileges
set_call_filter(bytes.fromhex(sys.argv[1]))

def answer(number, *arguments):
    ctypes.set_errno(0)
    return errno.errorcode.get(ctypes.get_errno()) if libc.syscall(number, *map(ctypes.c_long, arguments)) < 0 else "OK"

found = {"refused": {number: answer(number, -1, -1, -1, -1, -1, -1) for number in map(int, sys.argv[2].split())}}
families = {}
for family in range(46):
    try:
        socket.socket(family, socket.SOCK_DGRAM).close()
    except PermissionError:
        continue
    except OSError:
        pass
    families[family] = True
thread = threading.Thread(target=lambda: found.update(thread="ran"))
thread.start(); thread.join()
found["families"] = list(families)
found["program"] = subprocess.run(["sh", "-c", "echo out | cat"], capture_output=True, text=True, timeout=20).stdout
print(json.dumps(found))
"""


@pytest.mark.skipif(platform.machine() not in MACHINES, reason="there is no filter for this machine")
def test_the_kernel_reads_it_so():
    column = MACHINES[platform.machine()][0]
    judged = {(56, 220)[column], (41, 198)[column], (53, 199)[column], (302, 261)[column]}
    allowed = {numbers[column] for numbers in ALLOWED.values()}
    refused = [number for number in range(LAST_KNOWN + 10) if number not in allowed | judged | {UPROBE}]
    arguments = [sys.executable, "-c", ASK, program().hex(), " ".join(map(str, refused))]

    found = json.loads(subprocess.check_output(arguments, timeout=60))

    assert set(found["refused"].values()) == {"EPERM", "ENOSYS"}
    assert [number for number in refused if found["refused"][str(number)] == "ENOSYS"] == [
        435, *range(LAST_KNOWN + 1, LAST_KNOWN + 10),
    ]  # fmt: skip
    assert set(found["families"]) == FAMILIES
    assert (found["thread"], found["program"]) == ("ran", "out\n")
