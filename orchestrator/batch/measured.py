"""What a batch will about take, by what the fleet remembers of runs of the same name; else by a price; else unknown."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from envelope.agents import ModelPrice
from envelope.wire import Wire

from ..estimate import estimate

RUNS = 3  # the latest of the name; older ones are of another batch


@dataclass(frozen=True, slots=True)
class Run:
    """`shards`: those that it did itself: neither found done, nor failed."""

    shards: int
    cost_microusd: int
    took_ms: int


class Outlook(Wire):
    """From `low` to `high`; None: nobody knows. `by`: what it was made of, in words."""

    low_microusd: int | None = None
    high_microusd: int | None = None
    low_s: float | None = None
    high_s: float | None = None
    by: str = "nothing is known of earlier runs"


def outlook(runs: Iterable[Run], count: int, *, cap_microusd: int) -> Outlook | None:
    """By what a shard cost in each of the runs, and by how long those took that were most like it in size. Pure.

    Merging and the gate take their time however many shards there are, and nobody knows how much of a run that was: it
    lies between none and all of it.

    >>> found = outlook([Run(2, 400, 3_000), Run(10, 1_000, 40_000)], 4, cap_microusd=700)
    >>> found.low_microusd, found.high_microusd, found.low_s, found.high_s, found.by
    (400, 700, 3.0, 6.0, '2 earlier runs')
    >>> outlook([Run(10, 0, 40_000)], 1, cap_microusd=0).high_s
    40.0
    """
    known = [run for run in runs if run.shards and count]
    if not known:
        return None
    costs = sorted(min(cap_microusd, run.cost_microusd * count // run.shards) for run in known)
    nearest = min(_unlike(run, count) for run in known)
    alike = [run for run in known if _unlike(run, count) == nearest]
    times = sorted(ms / 1000 for run in alike for ms in (run.took_ms, run.took_ms * count / run.shards))
    by = "1 earlier run" if len(known) == 1 else f"{len(known)} earlier runs"
    return Outlook(
        low_microusd=costs[0],
        high_microusd=costs[-1],
        low_s=round(times[0], 1),
        high_s=round(times[-1], 1),
        by=by,
    )


def _unlike(run: Run, count: int) -> float:
    """How many times as large the larger one of the two is."""
    return max(run.shards, count) / min(run.shards, count)


def by_price(price: ModelPrice, model: str, prompt: str, count: int, *, cap_microusd: int) -> Outlook:
    """Where nothing was measured: what so many agents about cost. Nobody knows how long they take."""
    about = estimate(price, prompt=prompt, agents=count, cap_microusd=cap_microusd)
    by = f"the price of {model}"
    return Outlook(low_microusd=about.low_microusd, high_microusd=about.high_microusd, by=by)
