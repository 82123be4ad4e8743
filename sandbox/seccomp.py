"""The system calls that a sandbox may not make, as a program for the kernel's filter. With Docker it is laid over the
engine's own profile, which in older engines lets io_uring and virtual machines' sockets pass.

What Docker's default profile leaves out, said the other way round: everything is allowed but what reaches past a
sandbox (namespaces, mounts, tracing, keys, kernel modules, clocks) or has been a way out of one (BPF, io_uring,
userfaultfd). Refused calls answer "not permitted", so that programs go on without them; a call of another
architecture ends its process. The format is that of classic BPF: linux/filter.h, linux/seccomp.h.
"""

from __future__ import annotations

import os
import platform
import struct

from .errors import SandboxError

# name → its number on x86_64 and on aarch64 (None: it has none there). From the kernel's own unistd.h of both.
DENIED: dict[str, tuple[int | None, int | None]] = {
    "acct": (163, 89), "add_key": (248, 217), "adjtimex": (159, 171), "bpf": (321, 280), "chroot": (161, 51),
    "clock_adjtime": (305, 266), "clock_settime": (227, 112), "delete_module": (176, 106),
    "fanotify_init": (300, 262), "finit_module": (313, 273), "fsconfig": (431, 431), "fsmount": (432, 432),
    "fsopen": (430, 430), "fspick": (433, 433), "init_module": (175, 105), "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427), "io_uring_setup": (425, 425), "ioperm": (173, None), "iopl": (172, None),
    "kcmp": (312, 272), "kexec_file_load": (320, 294), "kexec_load": (246, 104), "keyctl": (250, 219),
    "lookup_dcookie": (212, 18), "mount": (165, 40), "mount_setattr": (442, 442), "move_mount": (429, 429),
    "name_to_handle_at": (303, 264), "open_by_handle_at": (304, 265), "open_tree": (428, 428),
    "perf_event_open": (298, 241), "personality": (135, 92), "pidfd_getfd": (438, 438), "pivot_root": (155, 41),
    "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "ptrace": (101, 117), "quotactl": (179, 60),
    "reboot": (169, 142), "request_key": (249, 218), "setns": (308, 268), "settimeofday": (164, 170),
    "swapoff": (168, 225), "swapon": (167, 224), "syslog": (103, 116), "umount2": (166, 39), "unshare": (272, 97),
    "userfaultfd": (323, 282), "vhangup": (153, 58),
}  # fmt: skip
# Packets of its own making and virtual machines' sockets: nothing that a project's tests need.
SOCKET = (41, 198)
# Of one's own process only: the same user may set the tool server's, down to no file and no memory (measured).
PRLIMIT = (302, 261)
DENIED_FAMILIES = (17, 40)  # AF_PACKET, AF_VSOCK

ARCHITECTURES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
X32_BIT = 0x4000_0000  # the third ABI of x86_64 would go around a list of numbers
NUMBER, ARCHITECTURE, FIRST_ARGUMENT = 0, 4, 16  # offsets in struct seccomp_data
LOAD, JUMP_IF_EQUAL, JUMP_IF_AT_LEAST, RETURN = 0x20, 0x15, 0x35, 0x06
ALLOW, KILL, REFUSE = 0x7FFF_0000, 0x8000_0000, 0x0005_0001  # the last answers errno 1, EPERM

Step = tuple[int, int, int, int]  # code, where to go if true, if false, operand


def program(machine: str = "") -> bytes:
    """For this machine, or the one named as by `uname -m`; `SandboxError` for one whose numbers are not known."""
    machine = machine or platform.machine()
    if machine not in ARCHITECTURES:
        raise SandboxError(f"There is no system call filter for {machine}.", hint="use the driver docker")
    column, architecture = ARCHITECTURES[machine]
    steps: list[Step] = [
        (LOAD, 0, 0, ARCHITECTURE),
        (JUMP_IF_EQUAL, 1, 0, architecture),
        (RETURN, 0, 0, KILL),
        (LOAD, 0, 0, NUMBER),
    ]
    if machine == "x86_64":
        steps += _if((JUMP_IF_AT_LEAST, X32_BIT), REFUSE)
    for numbers in DENIED.values():
        if (number := numbers[column]) is not None:
            steps += _if((JUMP_IF_EQUAL, number), REFUSE)
    steps += [
        (JUMP_IF_EQUAL, 0, 4, PRLIMIT[column]),
        (LOAD, 0, 0, FIRST_ARGUMENT),
        (JUMP_IF_EQUAL, 1, 0, 0),  # nobody, which is the caller
        (RETURN, 0, 0, REFUSE),
        (RETURN, 0, 0, ALLOW),
    ]
    families = [step for family in DENIED_FAMILIES for step in _if((JUMP_IF_EQUAL, family), REFUSE)]
    steps.append((JUMP_IF_EQUAL, 0, 1 + len(families), SOCKET[column]))
    steps += [(LOAD, 0, 0, FIRST_ARGUMENT), *families, (RETURN, 0, 0, ALLOW)]
    return b"".join(struct.pack("=HBBI", *step) for step in steps)


def as_file(machine: str = "") -> int:
    """A descriptor to read the program from, for a process that inherits it."""
    fd = os.memfd_create("seccomp", 0)
    os.write(fd, program(machine))
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


def _if(test: tuple[int, int], then: int) -> list[Step]:
    code, operand = test
    return [(code, 0, 1, operand), (RETURN, 0, 0, then)]
