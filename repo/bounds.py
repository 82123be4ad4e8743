"""What a process may take that reads hostile input (`apart.py` starts it): it bounds itself before it reads."""

from __future__ import annotations

import resource

MAX_MEMORY_BYTES = 1024 * 1024 * 1024


def bound_this_process(max_cpu_s: int) -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (max_cpu_s, max_cpu_s))
    resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY_BYTES, MAX_MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
