"""What happens in a run, drawn from its seed: the same seed, the same tasks and the same faults in the same order."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from .fleet import LEASE_MS
from .job import Job

# The long runs of `make soak`, beside the short ones of every day.
SOAK = os.environ.get("MUSTER_CHAOS") == "soak"
SEEDS = 20 if SOAK else 3
# What cannot run here is skipped; where all must run it fails.
STRICT = os.environ.get("MUSTER_TEST_STRICT") == "1" or os.environ.get("CI") == "true"
# A pause that a lease survives, and one that it does not.
PAUSES_S = (0.2 * LEASE_MS / 1000, 2.5 * LEASE_MS / 1000)


class Kind(StrEnum):
    KILL = "kill"
    PAUSE = "pause"
    TERMINATE = "terminate"


@dataclass(frozen=True, slots=True)
class Fault:
    kind: Kind
    place: int  # of the crew
    for_s: float = 0.0  # of a pause


def seeds(count: int = SEEDS) -> list[int]:
    """`MUSTER_CHAOS_SEED` replays one run; else the first numbers, so that a green run is the same run everywhere."""
    replayed = os.environ.get("MUSTER_CHAOS_SEED")
    return [int(replayed)] if replayed else list(range(1, count + 1))


def seeds_at_once(count: int = 3) -> list[tuple[int, ...]]:
    """The seeds, so many at a time: a machine that kills and starts in one run has time for others beside it."""
    found = seeds()
    return [tuple(found[at : at + count]) for at in range(0, len(found), count)]


def faults(seed: int, places: int) -> Iterator[Fault]:
    """Without end; mostly kills."""
    chance = random.Random(f"faults {seed}")
    while True:
        (kind,) = chance.choices(list(Kind), weights=(8, 1, 1))
        yield Fault(kind, chance.randrange(places), chance.choice(PAUSES_S) if kind is Kind.PAUSE else 0.0)


def jobs(seed: int, count: int) -> list[Job]:
    """Of a few turns, some with money, a few with children, which some of them wait for."""
    chance = random.Random(f"jobs {seed}")
    return [_job(chance, with_children=chance.random() < 0.1) for _ in range(count)]


def _job(chance: random.Random, *, with_children: bool = False) -> Job:
    children = [_job(chance).plain() for _ in range(chance.randrange(1, 4))] if with_children else []
    return Job(
        turns_ms=tuple(chance.randrange(20, 200) for _ in range(chance.randrange(1, 5))),
        cost_microusd=chance.choice((0, 0, 1_000, 50_000)),
        children=tuple(children),
        parks=chance.random() < 0.7,
    )
