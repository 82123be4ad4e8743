"""The inside of a process that reads hostile input (`apart.py` starts it): it bounds itself before it reads."""

from __future__ import annotations

import resource
import sys
from collections.abc import Iterator

MAX_CPU_S = 10  # ten times what the largest honest source needs
MAX_MEMORY_BYTES = 1024 * 1024 * 1024


def bound_this_process(max_cpu_s: int) -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (max_cpu_s, max_cpu_s))
    resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY_BYTES, MAX_MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def versions_within_bounds() -> list[bytes]:
    """The versions of a file on stdin, once the process is bounded."""
    bound_this_process(MAX_CPU_S)
    return list(_versions(sys.stdin.buffer.read()))


def _versions(told: bytes) -> Iterator[bytes]:
    """As often as there are: a line with a length, and so many bytes."""
    while told:
        length, _, told = told.partition(b"\n")
        yield told[: int(length)]
        told = told[int(length) :]
