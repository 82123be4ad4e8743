"""The system calls that a sandbox may make, as a program for the kernel's filter. With Docker it is laid over the
engine's own profile, so that both must allow a call; bubblewrap has this one alone.

The list is Docker's default profile for a container without capabilities (github.com/moby/profiles, 2026-05), without
what reaches other processes (`ptrace`, `process_vm_readv`), what has been a way out of sandboxes (io_uring) and what
nothing needs (`modify_ldt`, `personality`, `memfd_secret`). A call that is not on it answers "not permitted"; one that
is younger than the list "no such call", for programs ask for such and go on without. A call of another
architecture, 32-bit ones too, ends its process. The format is that of classic BPF: linux/filter.h, linux/seccomp.h.
"""

from __future__ import annotations

import os
import platform
import struct
from collections.abc import Iterable, Sequence

from .errors import SandboxError

# name → its number on x86_64 and on aarch64 (None: it has none there). From the kernel's own unistd.h of both.
ALLOWED: dict[str, tuple[int | None, int | None]] = {
    "accept": (43, 202), "accept4": (288, 242), "access": (21, None), "alarm": (37, None), "arch_prctl": (158, None),
    "bind": (49, 200), "brk": (12, 214), "cachestat": (451, 451), "capget": (125, 90), "capset": (126, 91),
    "chdir": (80, 49), "chmod": (90, None), "chown": (92, None), "clock_getres": (229, 114),
    "clock_gettime": (228, 113), "clock_nanosleep": (230, 115), "close": (3, 57), "close_range": (436, 436),
    "connect": (42, 203), "copy_file_range": (326, 285), "creat": (85, None), "dup": (32, 23), "dup2": (33, None),
    "dup3": (292, 24), "epoll_create": (213, None), "epoll_create1": (291, 20), "epoll_ctl": (233, 21),
    "epoll_pwait": (281, 22), "epoll_pwait2": (441, 441), "epoll_wait": (232, None), "eventfd": (284, None),
    "eventfd2": (290, 19), "execve": (59, 221), "execveat": (322, 281), "exit": (60, 93), "exit_group": (231, 94),
    "faccessat": (269, 48), "faccessat2": (439, 439), "fadvise64": (221, 223), "fallocate": (285, 47),
    "fchdir": (81, 50), "fchmod": (91, 52), "fchmodat": (268, 53), "fchmodat2": (452, 452), "fchown": (93, 55),
    "fchownat": (260, 54), "fcntl": (72, 25), "fdatasync": (75, 83), "fgetxattr": (193, 10), "flistxattr": (196, 13),
    "flock": (73, 32), "fork": (57, None), "fremovexattr": (199, 16), "fsetxattr": (190, 7), "fstat": (5, 80),
    "fstatfs": (138, 44), "fsync": (74, 82), "ftruncate": (77, 46), "futex": (202, 98), "futex_requeue": (456, 456),
    "futex_wait": (455, 455), "futex_waitv": (449, 449), "futex_wake": (454, 454), "futimesat": (261, None),
    "get_robust_list": (274, 100), "getcpu": (309, 168), "getcwd": (79, 17), "getdents": (78, None),
    "getdents64": (217, 61), "getegid": (108, 177), "geteuid": (107, 175), "getgid": (104, 176),
    "getgroups": (115, 158), "getitimer": (36, 102), "getpeername": (52, 205), "getpgid": (121, 155),
    "getpgrp": (111, None), "getpid": (39, 172), "getppid": (110, 173), "getpriority": (140, 141),
    "getrandom": (318, 278), "getresgid": (120, 150), "getresuid": (118, 148), "getrlimit": (97, 163),
    "getrusage": (98, 165), "getsid": (124, 156), "getsockname": (51, 204), "getsockopt": (55, 209),
    "gettid": (186, 178), "gettimeofday": (96, 169), "getuid": (102, 174), "getxattr": (191, 8),
    "getxattrat": (464, 464), "inotify_add_watch": (254, 27), "inotify_init": (253, None), "inotify_init1": (294, 26),
    "inotify_rm_watch": (255, 28), "io_cancel": (210, 3), "io_destroy": (207, 1), "io_getevents": (208, 4),
    "io_pgetevents": (333, 292), "io_setup": (206, 0), "io_submit": (209, 2), "ioctl": (16, 29),
    "ioprio_get": (252, 31), "ioprio_set": (251, 30), "kill": (62, 129), "landlock_add_rule": (445, 445),
    "landlock_create_ruleset": (444, 444), "landlock_restrict_self": (446, 446), "lchown": (94, None),
    "lgetxattr": (192, 9), "link": (86, None), "linkat": (265, 37), "listen": (50, 201), "listxattr": (194, 11),
    "listxattrat": (465, 465), "llistxattr": (195, 12), "lremovexattr": (198, 15), "lseek": (8, 62),
    "lsetxattr": (189, 6), "lstat": (6, None), "madvise": (28, 233), "map_shadow_stack": (453, 453),
    "membarrier": (324, 283), "memfd_create": (319, 279), "mincore": (27, 232), "mkdir": (83, None),
    "mkdirat": (258, 34), "mknod": (133, None), "mknodat": (259, 33), "mlock": (149, 228), "mlock2": (325, 284),
    "mlockall": (151, 230), "mmap": (9, 222), "mprotect": (10, 226), "mq_getsetattr": (245, 185),
    "mq_notify": (244, 184), "mq_open": (240, 180), "mq_timedreceive": (243, 183), "mq_timedsend": (242, 182),
    "mq_unlink": (241, 181), "mremap": (25, 216), "mseal": (462, 462), "msgctl": (71, 187), "msgget": (68, 186),
    "msgrcv": (70, 188), "msgsnd": (69, 189), "msync": (26, 227), "munlock": (150, 229), "munlockall": (152, 231),
    "munmap": (11, 215), "nanosleep": (35, 101), "newfstatat": (262, 79), "open": (2, None), "openat": (257, 56),
    "openat2": (437, 437), "pause": (34, None), "pidfd_open": (434, 434), "pidfd_send_signal": (424, 424),
    "pipe": (22, None), "pipe2": (293, 59), "pkey_alloc": (330, 289), "pkey_free": (331, 290),
    "pkey_mprotect": (329, 288), "poll": (7, None), "ppoll": (271, 73), "prctl": (157, 167), "pread64": (17, 67),
    "preadv": (295, 69), "preadv2": (327, 286), "process_mrelease": (448, 448), "pselect6": (270, 72),
    "pwrite64": (18, 68), "pwritev": (296, 70), "pwritev2": (328, 287), "read": (0, 63), "readahead": (187, 213),
    "readlink": (89, None), "readlinkat": (267, 78), "readv": (19, 65), "recvfrom": (45, 207), "recvmmsg": (299, 243),
    "recvmsg": (47, 212), "remap_file_pages": (216, 234), "removexattr": (197, 14), "removexattrat": (466, 466),
    "rename": (82, None), "renameat": (264, 38), "renameat2": (316, 276), "restart_syscall": (219, 128),
    "rmdir": (84, None), "rseq": (334, 293), "rt_sigaction": (13, 134), "rt_sigpending": (127, 136),
    "rt_sigprocmask": (14, 135), "rt_sigqueueinfo": (129, 138), "rt_sigreturn": (15, 139),
    "rt_sigsuspend": (130, 133), "rt_sigtimedwait": (128, 137), "rt_tgsigqueueinfo": (297, 240),
    "sched_get_priority_max": (146, 125), "sched_get_priority_min": (147, 126), "sched_getaffinity": (204, 123),
    "sched_getattr": (315, 275), "sched_getparam": (143, 121), "sched_getscheduler": (145, 120),
    "sched_rr_get_interval": (148, 127), "sched_setaffinity": (203, 122), "sched_setattr": (314, 274),
    "sched_setparam": (142, 118), "sched_setscheduler": (144, 119), "sched_yield": (24, 124), "seccomp": (317, 277),
    "select": (23, None), "semctl": (66, 191), "semget": (64, 190), "semop": (65, 193), "semtimedop": (220, 192),
    "sendfile": (40, 71), "sendmmsg": (307, 269), "sendmsg": (46, 211), "sendto": (44, 206),
    "set_robust_list": (273, 99), "set_tid_address": (218, 96), "setfsgid": (123, 152), "setfsuid": (122, 151),
    "setgid": (106, 144), "setgroups": (116, 159), "setitimer": (38, 103), "setpgid": (109, 154),
    "setpriority": (141, 140), "setregid": (114, 143), "setresgid": (119, 149), "setresuid": (117, 147),
    "setreuid": (113, 145), "setrlimit": (160, 164), "setsid": (112, 157), "setsockopt": (54, 208),
    "setuid": (105, 146), "setxattr": (188, 5), "setxattrat": (463, 463), "shmat": (30, 196), "shmctl": (31, 195),
    "shmdt": (67, 197), "shmget": (29, 194), "shutdown": (48, 210), "sigaltstack": (131, 132),
    "signalfd": (282, None), "signalfd4": (289, 74), "splice": (275, 76), "stat": (4, None), "statfs": (137, 43),
    "statx": (332, 291), "symlink": (88, None), "symlinkat": (266, 36), "sync": (162, 81),
    "sync_file_range": (277, 84), "syncfs": (306, 267), "sysinfo": (99, 179), "tee": (276, 77), "tgkill": (234, 131),
    "time": (201, None), "timer_create": (222, 107), "timer_delete": (226, 111), "timer_getoverrun": (225, 109),
    "timer_gettime": (224, 108), "timer_settime": (223, 110), "timerfd_create": (283, 85),
    "timerfd_gettime": (287, 87), "timerfd_settime": (286, 86), "times": (100, 153), "tkill": (200, 130),
    "truncate": (76, 45), "umask": (95, 166), "uname": (63, 160), "unlink": (87, None), "unlinkat": (263, 35),
    "uretprobe": (335, None), "utime": (132, None), "utimensat": (280, 88), "utimes": (235, None),
    "vfork": (58, None), "vmsplice": (278, 75), "wait4": (61, 260), "waitid": (247, 95), "write": (1, 64),
    "writev": (20, 66),
}  # fmt: skip
LAST_KNOWN = 466  # of both; what came with Linux 6.13

# These are allowed with some first arguments only.
CLONE, SOCKET, SOCKETPAIR, PRLIMIT = (56, 220), (41, 198), (53, 199), (302, 261)
# Its flags lie in memory, where no filter sees them. Libraries that hear "no such call" use `clone`.
CLONE3 = (435, 435)
NAMESPACES = 0x7E02_0000  # CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET
# AF_UNIX, AF_INET, AF_INET6, AF_NETLINK. Others were ways into the kernel (AF_ALG: CVE-2026-31431), or make packets of
# their own: nothing that a project's tests need.
FAMILIES = (1, 2, 10, 16)
OWN_PROCESS = 0  # the same user may set the tool server's limits, down to no file and no memory (measured)

ARCHITECTURES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
X32_BIT = 0x4000_0000  # the third ABI of x86_64 would go around a list of numbers
NUMBER, ARCHITECTURE, FIRST_ARGUMENT = 0, 4, 16  # offsets in struct seccomp_data
LOAD, JUMP_IF_EQUAL, JUMP_IF_AT_LEAST, JUMP_IF_ANY_BIT, RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
ALLOW, KILL, REFUSE, UNKNOWN = 0x7FFF_0000, 0x8000_0000, 0x0005_0001, 0x0005_0026  # the last two: EPERM, ENOSYS

Step = tuple[int, int, int, int]  # code, how many to skip if true, if false, operand


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
    steps += _if((JUMP_IF_AT_LEAST, LAST_KNOWN + 1), UNKNOWN)
    steps += _if((JUMP_IF_EQUAL, CLONE3[column]), UNKNOWN)
    steps += _judged(CLONE[column], _if((JUMP_IF_ANY_BIT, NAMESPACES), REFUSE), otherwise=ALLOW)
    for call in (SOCKET, SOCKETPAIR):
        families = [step for family in FAMILIES for step in _if((JUMP_IF_EQUAL, family), ALLOW)]
        steps += _judged(call[column], families, otherwise=REFUSE)
    steps += _judged(PRLIMIT[column], _if((JUMP_IF_EQUAL, OWN_PROCESS), ALLOW), otherwise=REFUSE)
    for first, last in _runs(numbers[column] for numbers in ALLOWED.values()):
        steps += [
            (JUMP_IF_AT_LEAST, 3, 0, last + 1),
            (JUMP_IF_AT_LEAST, 0, 1, first),
            (RETURN, 0, 0, ALLOW),
            (RETURN, 0, 0, REFUSE),
        ]
    steps.append((RETURN, 0, 0, REFUSE))
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


def _judged(number: int, tests: Sequence[Step], *, otherwise: int) -> list[Step]:
    """One call, by the lower half of its first argument: all that are judged so are ints or flags."""
    return [
        (JUMP_IF_EQUAL, 0, 2 + len(tests), number),
        (LOAD, 0, 0, FIRST_ARGUMENT),
        *tests,
        (RETURN, 0, 0, otherwise),
    ]


def _runs(numbers: Iterable[int | None]) -> list[tuple[int, int]]:
    """Of numbers that follow one another, the first and the last."""
    runs: list[tuple[int, int]] = []
    for number in sorted(one for one in numbers if one is not None):
        if runs and runs[-1][1] + 1 == number:
            runs[-1] = (runs[-1][0], number)
        else:
            runs.append((number, number))
    return runs
