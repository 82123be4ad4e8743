"""Fleets of callers and a provider with a limit, simulated on the limiter in memory: an hour takes a second."""

from __future__ import annotations

import heapq
import itertools
import math
import random
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from transport.memory.rates import MemoryRates
from transport.rates import Ask, Permit, Quota

KEY = "0123456789abcdef" * 2
START_MS = 1_700_000_000_000


@dataclass
class Provider:
    """A token bucket of one second, refilled at `per_minute(now)`; says in whole seconds when to come again."""

    per_minute: Callable[[int], float]
    level: float = math.inf
    filled_at_ms: int = START_MS

    def take(self, now_ms: int) -> int | None:
        """None: served. Else the milliseconds to wait."""
        per_ms = self.per_minute(now_ms - START_MS) / 60_000
        room = max(1.0, per_ms * 1_000)
        self.level = min(room, self.level + (now_ms - self.filled_at_ms) * per_ms)
        self.filled_at_ms = now_ms
        if self.level >= 1:
            self.level -= 1
            return None
        return min(math.ceil((1 - self.level) / per_ms / 1_000), 5) * 1_000


@dataclass
class Fleet:
    """Agents that call one after another: each asks, waits as told, calls (`latency_ms`), and asks again."""

    quota: Quota = field(default_factory=Quota)
    provider: Provider | None = None
    latency_ms: int = 200
    chance: random.Random = field(default_factory=lambda: random.Random(0))
    now_ms: int = START_MS
    served: list[tuple[int, str]] = field(default_factory=list)  # when, which trace
    refused_at: list[int] = field(default_factory=list)
    asks: int = 0

    async def run(self, agents: dict[str, int], for_ms: int, *, dies: float = 0.0) -> None:
        """`agents`: how many of each trace; each ticket is left behind with the chance `dies`, and its agent starts
        anew."""
        rates, serial = MemoryRates(lambda: self.now_ms), itertools.count()
        events: list[tuple[int, int, Ask]] = []

        def comes(at_ms: int, ask: Ask) -> None:
            heapq.heappush(events, (at_ms, next(serial), ask))

        def new(trace: str) -> Ask:
            return Ask(KEY, trace, f"{next(serial):09d}", 0, self.quota)

        for trace, count in agents.items():
            for _ in range(count):
                comes(START_MS + self.chance.randrange(100), new(trace))
        while events and events[0][0] < START_MS + for_ms:
            self.now_ms, _, ask = heapq.heappop(events)
            self.asks += 1
            found = await rates.ask(replace(ask, served=self.now_ms - START_MS - self.served_at_ms < 1_000))
            if isinstance(found, Permit):
                comes(self.now_ms + await self._call(rates, found, ask.trace_id), new(ask.trace_id))
                continue
            at_ms = self.now_ms + found.wait_ms + self.chance.randrange(20)  # timers are late
            comes(at_ms, new(ask.trace_id) if self.chance.random() < dies else replace(ask, place=found.place))

    @property
    def served_at_ms(self) -> int:
        return self.served[-1][0] if self.served else 0

    async def _call(self, rates: MemoryRates, permit: Permit, trace: str) -> int:
        """How long it takes."""
        wait_ms = self.provider.take(self.now_ms) if self.provider else None
        if wait_ms is None:
            self.served.append((self.now_ms - START_MS, trace))
            return self.latency_ms
        self.refused_at.append(self.now_ms - START_MS)
        await rates.slow_down(KEY, permit, self.quota, pause_ms=int(wait_ms))
        return int(wait_ms)

    def share(self, from_ms: int, to_ms: int, per_minute: float) -> float:
        return sum(from_ms <= at < to_ms for at, _ in self.served) / (per_minute * (to_ms - from_ms) / 60_000)

    def refusals(self, from_ms: int, to_ms: int) -> float:
        refused = sum(from_ms <= at < to_ms for at in self.refused_at)
        return refused / (refused + sum(from_ms <= at < to_ms for at, _ in self.served))


def most_in_a_minute(times_ms: list[int]) -> int:
    most, window = 0, deque[int]()
    for at in times_ms:
        window.append(at)
        while window[0] <= at - 60_000:
            window.popleft()
        most = max(most, len(window))
    return most


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 2_000), st.integers(1, 40), st.integers(0, 5_000), st.integers(0, 2**32))
async def test_no_minute_holds_more_than_the_configured_limit(per_minute: int, agents: int, latency: int, seed: int):
    fleet = Fleet(Quota(per_minute), latency_ms=latency + 1, chance=random.Random(seed))
    await fleet.run({"a": agents}, 180_000)
    assert 0 < most_in_a_minute([at for at, _ in fleet.served]) <= per_minute


async def test_traces_take_turns_whatever_their_size():
    fleet = Fleet(Quota(1_200))
    await fleet.run({"many": 200, "few": 5, "one": 5}, 120_000)
    shares = Counter(trace for _, trace in fleet.served)
    third = fleet.share(0, 120_000, 1_200) * 2_400 / 3
    assert all(shares[trace] == pytest.approx(third, rel=0.1) for trace in ("many", "few", "one"))


async def test_a_single_agent_is_not_starved_by_two_hundred():
    fleet = Fleet(Quota(600), latency_ms=1)
    await fleet.run({"many": 200, "one": 1}, 120_000)
    at = [when for when, trace in fleet.served if trace == "one"]
    assert max(b - a for a, b in itertools.pairwise(at)) < 500  # five calls' time


async def test_agents_that_die_in_line_hold_nobody_up():
    fleet = Fleet(Quota(600))
    await fleet.run({"a": 20, "b": 20}, 300_000, dies=0.05)
    assert fleet.share(60_000, 300_000, 600) > 0.9


@pytest.mark.parametrize("per_minute", [300, 3_000, 12_000])
async def test_an_unknown_limit_is_found_kept_and_used(per_minute: int):
    fleet = Fleet(provider=Provider(lambda _: per_minute))
    await fleet.run({f"trace {n}": 20 for n in range(10)}, 400_000)
    assert fleet.share(120_000, 400_000, per_minute) > 0.9
    assert fleet.refusals(120_000, 400_000) < 0.01


@pytest.mark.parametrize("halved_at_ms", [240_000, 251_000, 263_500])
async def test_a_limit_that_is_halved_is_found_within_a_minute(halved_at_ms: int):
    fleet = Fleet(provider=Provider(lambda at: 3_000 if at < halved_at_ms else 1_500))
    await fleet.run({f"trace {n}": 10 for n in range(16)}, 600_000)
    assert fleet.share(halved_at_ms + 60_000, 600_000, 1_500) > 0.9
    assert fleet.refusals(halved_at_ms + 60_000, 600_000) < 0.01
    assert fleet.share(halved_at_ms, halved_at_ms + 60_000, 1_500) > 0.75


async def test_a_limit_that_is_raised_is_found_in_minutes():
    fleet = Fleet(provider=Provider(lambda at: 1_500 if at < 120_000 else 3_000))
    await fleet.run({f"trace {n}": 10 for n in range(16)}, 600_000)
    assert fleet.share(300_000, 600_000, 3_000) > 0.9


async def test_a_provider_that_refuses_everything_for_a_while_is_used_again_soon_after():
    fleet = Fleet(provider=Provider(lambda at: 1_500 if not 120_000 <= at < 150_000 else 0.001))
    await fleet.run({f"trace {n}": 10 for n in range(16)}, 600_000)
    assert fleet.share(300_000, 600_000, 1_500) > 0.8


async def test_a_call_that_waits_costs_few_round_trips():
    fleet = Fleet(Quota(1_200))
    await fleet.run({f"trace {n}": 10 for n in range(16)}, 300_000)
    assert fleet.asks / len(fleet.served) < 5  # each waits for 8 s
