"""The inside of a process that `apart.py` starts: what it may take, and the versions of a file that it is given."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from .bounds import bound_this_process

# Ten times what the largest honest source needs.
MAX_CPU_S = 10


def within_bounds() -> list[bytes]:
    """The versions on stdin, once the process is bounded."""
    bound_this_process(MAX_CPU_S)
    return list(_versions(sys.stdin.buffer.read()))


def _versions(told: bytes) -> Iterator[bytes]:
    """As often as there are: a line with a length, and so many bytes."""
    while told:
        length, _, told = told.partition(b"\n")
        yield told[: int(length)]
        told = told[int(length) :]
