"""The inside of a process that reads hostile input (`apart.py` starts it): it confines itself before it reads.

All that it will need must be imported by then: it can open no file any more.
"""

from __future__ import annotations

import ctypes
import json
import os
import platform
import resource
import signal
import struct
import sys
from collections.abc import Callable, Sequence

MAX_CPU_S = 10  # for one question: ten times what the largest honest source needs
MAX_MEMORY_BYTES = 1024 * 1024 * 1024


def answer_once(answer: Callable[[bytes], bytes], max_cpu_s: int) -> None:
    """What it makes of stdin, on stdout; and the end of this process."""
    confine(MAX_MEMORY_BYTES)
    signal.setitimer(signal.ITIMER_PROF, max_cpu_s)
    asked = b"".join(iter(lambda: os.read(0, 1 << 20), b""))  # Python's own way to read all asks for the file's size
    sys.stdout.buffer.write(answer(asked))
    sys.stdout.buffer.flush()
    os._exit(0)  # what Python does at an end is more than this process may


def answer_questions(answer: Callable[[Sequence[str], Sequence[bytes]], bytes | None]) -> None:
    """Whatever stdin asks, until it ends: words and texts. On stdout the answer's length (-1: None), and it. A question
    that takes too much ends the process."""
    confine(MAX_MEMORY_BYTES)
    while line := sys.stdin.buffer.readline():
        about = json.loads(line)
        texts = [sys.stdin.buffer.read(length) for length in about["lengths"]]
        signal.setitimer(signal.ITIMER_PROF, MAX_CPU_S)
        found = answer(about["words"], texts)
        sys.stdout.buffer.write(b"-1\n" if found is None else b"%d\n%s" % (len(found), found))
        sys.stdout.buffer.flush()
    os._exit(0)


# What a process needs that reads its input, thinks, and answers: name → its number on x86_64 and on aarch64.
_ALLOWED = {
    "read": (0, 63), "write": (1, 64), "brk": (12, 214), "munmap": (11, 215), "mremap": (25, 216), "madvise": (28, 233),
    "futex": (202, 98), "rt_sigreturn": (15, 139), "restart_syscall": (219, 128), "exit": (60, 93),
    "exit_group": (231, 94), "setitimer": (38, 103), "clock_gettime": (228, 113), "getrusage": (98, 165),
}  # fmt: skip
_MAPS = ((9, 222), (10, 226))  # mmap, mprotect: no page may become code
_EXECUTABLE = 4
_MACHINES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
_NUMBER, _ARCHITECTURE, _THIRD_ARGUMENT = 0, 4, 32  # offsets in struct seccomp_data
_LOAD, _IF_EQUAL, _IF_ANY_BIT, _RETURN = 0x20, 0x15, 0x45, 0x06  # classic BPF: linux/filter.h
_ALLOW, _KILL = 0x7FFF_0000, 0x8000_0000
_NO_NEW_PRIVILEGES, _SECCOMP, _FILTER = 38, 22, 2  # linux/prctl.h


def confine(max_memory_bytes: int) -> bool:
    """From here on this process can do nothing but use the files that it has open, within that memory: no other file,
    no socket, no program, no signal, no new code. Anything else ends it. False where the kernel has no such filter, or
    the machine is another one: then only memory and new files are limited.
    """
    resource.setrlimit(resource.RLIMIT_AS, (max_memory_bytes, max_memory_bytes))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, 0))
    if sys.platform != "linux" or platform.machine() not in _MACHINES:
        return False
    program = _filter(platform.machine())
    steps = ctypes.create_string_buffer(program, len(program))
    given = ctypes.create_string_buffer(struct.pack("@HP", len(program) // 8, ctypes.addressof(steps)))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0) != 0:
        return False
    return libc.prctl(_SECCOMP, _FILTER, ctypes.c_void_p(ctypes.addressof(given)), 0, 0) == 0


def _filter(machine: str) -> bytes:
    column, architecture = _MACHINES[machine]
    steps = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_IF_EQUAL, 1, 0, architecture),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _NUMBER),
    ]
    for numbers in _ALLOWED.values():
        steps += [(_IF_EQUAL, 0, 1, numbers[column]), (_RETURN, 0, 0, _ALLOW)]
    for numbers in _MAPS:
        steps += [
            (_IF_EQUAL, 0, 4, numbers[column]),
            (_LOAD, 0, 0, _THIRD_ARGUMENT),
            (_IF_ANY_BIT, 0, 1, _EXECUTABLE),
            (_RETURN, 0, 0, _KILL),
            (_RETURN, 0, 0, _ALLOW),
        ]
    steps.append((_RETURN, 0, 0, _KILL))
    return b"".join(struct.pack("=HBBI", *step) for step in steps)
