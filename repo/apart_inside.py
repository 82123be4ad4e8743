"""The inside of a process that `apart.py` starts: what it may take, and the versions of a file that it is given."""

from __future__ import annotations

import resource
import sys
from collections.abc import Iterator

# Ten times what the largest honest source needs.
MAX_CPU_S = 10
MAX_MEMORY_BYTES = 1024 * 1024 * 1024


def within_bounds() -> list[bytes]:
    """The versions on stdin, once the process is bounded."""
    resource.setrlimit(resource.RLIMIT_CPU, (MAX_CPU_S, MAX_CPU_S))
    resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY_BYTES, MAX_MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    return list(_versions(sys.stdin.buffer.read()))


def _versions(told: bytes) -> Iterator[bytes]:
    """As often as there are: a line with a length, and so many bytes."""
    while told:
        length, _, told = told.partition(b"\n")
        yield told[: int(length)]
        told = told[int(length) :]
