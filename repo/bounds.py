"""The inside of a process that reads hostile input (`apart.py` starts it): it bounds itself before it reads."""

from __future__ import annotations

import json
import resource
import sys
from collections.abc import Callable, Sequence

MAX_CPU_S = 10  # for one question: ten times what the largest honest source needs
MAX_MEMORY_BYTES = 1024 * 1024 * 1024


def bound_this_process(max_cpu_s: int) -> None:
    _bound_memory()
    resource.setrlimit(resource.RLIMIT_CPU, (max_cpu_s, max_cpu_s))


def answer_questions(answer: Callable[[Sequence[str], Sequence[bytes]], bytes | None]) -> None:
    """Whatever stdin asks, until it ends: words and texts. On stdout the answer's length (-1: None), and it. A question
    that takes too much ends the process."""
    _bound_memory()
    while line := sys.stdin.buffer.readline():
        about = json.loads(line)
        texts = [sys.stdin.buffer.read(length) for length in about["lengths"]]
        used = resource.getrusage(resource.RUSAGE_SELF)
        resource.setrlimit(
            resource.RLIMIT_CPU, (int(used.ru_utime + used.ru_stime) + MAX_CPU_S, resource.RLIM_INFINITY)
        )
        found = answer(about["words"], texts)
        sys.stdout.buffer.write(b"-1\n" if found is None else b"%d\n%s" % (len(found), found))
        sys.stdout.buffer.flush()


def _bound_memory() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY_BYTES, MAX_MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
