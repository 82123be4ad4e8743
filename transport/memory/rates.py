"""The limiter inside one process: what the Redis script is compared with, step by step."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable
from dataclasses import dataclass, field

from ..rates import MAX_PAUSE_MS, PACE, Ask, Later, Permit, Quota, base_rates, cost_ms

# What a newcomer stands behind the last one that went: in one trace and in another, first come is first served.
TICK = 0.001


@dataclass(slots=True)
class Line:
    """What is known of one key. `busy_until_ms` are the meters: of requests, of tokens."""

    top: float = 0.0  # the scale that the curve comes back to; 0: no 429 yet
    used_ms: float = 0.0
    cut_at_ms: int = 0
    busy_until_ms: tuple[float, float] = (0.0, 0.0)
    mean_tokens: float = 0.0
    virtual_ms: float = 0.0
    was_served: bool = False  # since the last cut
    recent: float = 0.0
    recent_at_ms: int = 0
    places: list[float] = field(default_factory=list[float])  # of all that wait, in order
    place_of: dict[str, float] = field(default_factory=dict[str, float])
    due_ms: dict[str, int] = field(default_factory=dict[str, int])  # when who waits counts as gone
    ends: dict[str, float] = field(default_factory=dict[str, float])  # trace → where its last call ends
    kept_until_ms: float = 0.0

    def scale(self, least: float) -> float:
        if not self.top:
            return 1.0
        return min(max(self.top * (1 + (1 - PACE.cut) * (self.used_ms / PACE.regain_ms - 1) ** 3), least), 1.0)

    def count(self, now: int) -> None:
        self.recent = self.recent_at(now) + 1
        self.recent_at_ms = now

    def recent_at(self, now: int) -> float:
        """Calls within the last `measured_ms`, about."""
        return self.recent * math.exp((self.recent_at_ms - now) / PACE.measured_ms)

    def cut(self, quota: Quota, now: int) -> None:
        """The provider has refused a call: fewer from now on, and where no quota is known from what was measured."""
        requests, _, least = base_rates(quota)
        scale = self.scale(least)
        if not self.cut_at_ms and quota == Quota():
            measured = self.recent_at(now) * 60_000 / PACE.measured_ms
            scale = min(scale, max(measured, PACE.measured_least) / requests)
        if self.cut_at_ms and self.used_ms < PACE.regain_ms / 4:
            self.top = scale * PACE.deep_cut / PACE.cut
        else:
            self.top = (scale + min(self.top or scale, scale)) / 2  # beyond the old top, the limit lies in between
        self.used_ms, self.cut_at_ms, self.was_served = 0.0, now, False

    def forget(self, ticket: str) -> None:
        if ticket in self.place_of:
            del self.places[bisect_left(self.places, self.place_of.pop(ticket))]
            del self.due_ms[ticket]


@dataclass(frozen=True, slots=True)
class Costs:
    """Of one call, in ms on each meter that counts; `before` is what stands in line before it."""

    own: tuple[float, float]
    before: tuple[float, float]
    metered: tuple[int, ...]

    @property
    def most(self) -> float:
        return max(self.own)


class MemoryRates:
    def __init__(self, clock: Callable[[], int]) -> None:
        self._clock = clock
        self._lines: dict[str, Line] = {}

    async def ask(self, ask: Ask) -> Permit | Later:
        now, line = self._clock(), self._line(ask.key)
        for ticket in [ticket for ticket, due_ms in line.due_ms.items() if due_ms <= now]:
            line.forget(ticket)
        requests, tokens, least = base_rates(ask.quota)
        scale = line.scale(least)
        per_request, per_token = cost_ms(requests * scale), cost_ms(tokens * scale)
        line.busy_until_ms = (line.busy_until_ms[0], line.busy_until_ms[1] + ask.owed_tokens * per_token)
        line.was_served = line.was_served or ask.served
        line.forget(ask.ticket)
        place = ask.place or max(line.virtual_ms + TICK, line.ends.get(ask.trace_id, 0.0))
        before = bisect_left(line.places, place) if ask.place else bisect_right(line.places, place)
        costs = Costs(
            (per_request, ask.tokens * per_token),
            (before * per_request, before * line.mean_tokens * per_token),
            tuple(meter for meter, rate in enumerate((requests, tokens)) if rate),
        )
        if not ask.place:
            line.mean_tokens += (ask.tokens - line.mean_tokens) / 16
            line.ends[ask.trace_id] = place + costs.most
        wait_ms = _wait_ms(line, costs, now)
        if wait_ms > 0:
            told_ms = min(max(math.ceil(wait_ms), PACE.again_ms if ask.place else 0), PACE.told_ms)
            insort(line.places, place)
            line.place_of[ask.ticket], line.due_ms[ask.ticket] = place, now + told_ms + PACE.late_ms
            _keep(line, now)
            return Later(told_ms, math.ceil(wait_ms), place)
        if ask.place:
            line.used_ms += max(min(costs.most, PACE.per_call_ms), costs.most / PACE.slowest)
        _take(line, place, costs, now)
        _keep(line, now)
        return Permit(now, (requests or tokens) * scale)

    async def leave(self, key: str, ticket: str) -> None:
        self._line(key).forget(ticket)

    async def slow_down(self, key: str, permit: Permit, quota: Quota, *, pause_ms: int) -> None:
        now, line = self._clock(), self._line(key)
        is_news = permit.at_ms > line.cut_at_ms and now >= line.cut_at_ms + PACE.apart_ms
        if is_news and (line.was_served or not line.cut_at_ms):
            line.cut(quota, now)
        free_at_ms = now + min(pause_ms, MAX_PAUSE_MS) + PACE.burst_ms
        line.busy_until_ms = (max(line.busy_until_ms[0], free_at_ms), max(line.busy_until_ms[1], free_at_ms))
        _keep(line, now)

    def _line(self, key: str) -> Line:
        now = self._clock()
        self._lines = {name: line for name, line in self._lines.items() if line.kept_until_ms > now}
        return self._lines.setdefault(key, Line(kept_until_ms=now + PACE.idle_ms))


def _wait_ms(line: Line, costs: Costs, now: int) -> float:
    ahead_ms = (max(line.busy_until_ms[m], now) + costs.before[m] - now for m in costs.metered)
    return max(ahead_ms) - PACE.burst_ms


def _take(line: Line, place: float, costs: Costs, now: int) -> None:
    requests, tokens = (max(busy, now) + own for busy, own in zip(line.busy_until_ms, costs.own, strict=True))
    line.busy_until_ms = (requests, tokens)
    line.count(now)
    line.virtual_ms = max(line.virtual_ms, place)
    line.ends = {trace: end for trace, end in line.ends.items() if end > line.virtual_ms}


def _keep(line: Line, now: int) -> None:
    line.kept_until_ms = max(now, *line.busy_until_ms) + PACE.idle_ms
