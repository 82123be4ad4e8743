"""Facts that a text of data states, as far as two changes of it may contradict each other. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

Key = tuple[str, ...]


@dataclass(slots=True)
class Said:
    """`once`: what stands more often in the file than it may. `defined`, `used`: names."""

    once: set[Key] = field(default_factory=set[Key])
    defined: set[str] = field(default_factory=set[str])
    used: Counter[str] = field(default_factory=Counter[str])


def more_than_once(keys: Iterable[Key]) -> set[Key]:
    return {key for key, count in Counter(keys).items() if count > 1}


def differing(said: Iterable[tuple[str, str]]) -> set[Key]:
    """Keys with more than one meaning: a line that stands twice says nothing else."""
    found: dict[str, set[str]] = {}
    for key, line in said:
        found.setdefault(key, set()).add(line)
    return {(key,) for key, lines in found.items() if len(lines) > 1}
