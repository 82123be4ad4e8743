"""How fast a fleet may call one model with one key: asked before each call, learned from what the provider answers.

**Meters.** Requests per minute, and tokens per minute where they are limited, each have a meter: the moment until which
what was let through has used the rate up. A call may go while its meters are less than `burst_ms` ahead of the clock,
and moves them on by its cost. A minute is counted as a minute and a burst, so that no window of 60 s ever holds more
than the limit. Tokens are estimated before a call and put right with the next `ask` of the same process.

**The line.** Who may not go yet gets a ticket and is told when to come again, and nobody polls. Tickets are ordered by
virtual time (start-time fair queueing by trace): a call begins where its trace's last one ended, or at the line's own
time, whichever is later. So a trace with 200 agents and a trace with one take turns. A call may go when its meters
have room for itself *and for all tickets before it*. A ticket whose owner does not come when told stops counting after
`late_ms`: who died costs the others a call's time at most, and who is only late brings its place in line with it.

**Adapting.** Both rates have one factor, `scale`, that never exceeds 1. Without configured limits 1 is a rate that
holds nobody back, and the first 429 sets it to what the fleet really called within the last second. A 429 (or
"overloaded") begins an episode: the scale is cut a little, once; calls that were let through before the cut tell
nothing new, nor does whatever comes within `apart_ms`, nor a provider that has served nobody since (that is an
outage, and no lower limit). A cut soon after another is deeper: then the limit itself has changed. Afterwards the
scale comes back along a cubic curve: additive increase whose step is smallest at `top`, where the last 429 was met,
and grows beyond. Its clock runs for calls that had to wait alone: a limit that nobody uses does not grow. A call
counts for `per_call_ms` at most, so that many calls lie between two 429s of a slow key as well, but for a part
(`slowest`) of its time at least, so that the slowest key comes back within minutes.

**Retry-After** (or the provider's reset header) holds for the whole fleet: nobody goes before it is over, and then
calls go evenly, without the burst that would bring the next 429.

All of it is times on the store's clock and a few numbers per key, forgotten when unused.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

# A provider that says "tomorrow" is asked again before that: quotas are raised, and headers are wrong.
MAX_PAUSE_MS = 3_600_000


@dataclass(frozen=True, slots=True)
class Quota:
    """What the operator says the provider allows; without either, the fleet finds out."""

    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None


@dataclass(frozen=True, slots=True)
class Ask:
    """`key` is 32 hex digits that stand for endpoint, API key and model. `ticket` is new for each call, sorts by time.

    `place` is what the last `Later` gave. `tokens` is an estimate. Of this process since it last asked: `owed_tokens`
    is what calls used beyond theirs (negative: less), and `served` whether the provider accepted any.
    """

    key: str
    trace_id: str
    ticket: str
    tokens: int
    quota: Quota = Quota()
    place: float = 0.0
    owed_tokens: int = 0
    served: bool = False


@dataclass(frozen=True, slots=True)
class Permit:
    """The call may go now. `per_minute`: the limit as it stands, of requests if those are metered, else of tokens."""

    at_ms: int
    per_minute: float


@dataclass(frozen=True, slots=True)
class Later:
    """Ask again, with this ticket and `place`, after `wait_ms`; the call's turn is about `turn_ms` away."""

    wait_ms: int
    turn_ms: int
    place: float


class Rates(Protocol):
    async def ask(self, ask: Ask) -> Permit | Later:
        """May this call go? One step, and the whole cost of a call that need not wait."""
        ...

    async def leave(self, key: str, ticket: str) -> None:
        """Whoever waits no longer gives the place back."""
        ...

    async def slow_down(self, key: str, permit: Permit, quota: Quota, *, pause_ms: int) -> None:
        """The provider refused a call with this permit for want of capacity, and wants nothing for `pause_ms`."""
        ...


@dataclass(frozen=True, slots=True)
class Pace:
    """The numbers of the algorithm, for whoever implements it."""

    burst_ms: int = 1_000  # a second's calls may go at once; providers that count strictly do so over seconds
    unknown_per_minute: int = 60_000  # no limit, until a provider says otherwise
    least: float = 0.02
    unknown_least: float = 0.0002  # 12 calls a minute
    measured_ms: float = 1_000.0  # a rate is measured over about so long
    measured_least: int = 300  # per minute: one 429 on a quiet day must not hold up the fan-out after it
    cut: float = 0.93
    deep_cut: float = 0.7
    apart_ms: int = 1_000  # a provider that refuses everything for two seconds must not stop the fleet for minutes
    regain_ms: float = 30_000.0  # of use, until the scale is where it met the last 429
    per_call_ms: float = 100.0  # at least 300 calls until then: 429s stay below half a percent
    slowest: float = 6.0
    told_ms: int = 5_000  # a line may get shorter meanwhile: whoever waits longer asks once more
    again_ms: int = (
        200  # who came too early once does not come a call's time later ten times; the burst makes up for it
    )
    late_ms: int = 500  # less than the burst: those who died never hold up the line
    idle_ms: int = 600_000  # a key's state is kept for so long after its last use


PACE = Pace()


def base_rates(quota: Quota) -> tuple[float, float, float]:
    """Requests and tokens per minute at a scale of 1 (0: not metered), and the lowest scale."""
    requests, tokens = quota.requests_per_minute or 0, quota.tokens_per_minute or 0
    if requests or tokens:
        return requests, tokens, PACE.least
    return PACE.unknown_per_minute, 0, PACE.unknown_least


def cost_ms(per_minute: float) -> float:
    """How far one unit moves a meter of this rate.

    >>> cost_ms(61)
    1000.0
    """
    return (60_000 + PACE.burst_ms) / per_minute if per_minute else 0.0
