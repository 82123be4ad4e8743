"""What a model call costs. Money is integer micro-dollars."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Any

from envelope.budget import Usage

TOKENS_PER_PRICE = 1_000_000


@dataclass(frozen=True, slots=True)
class Rates:
    """Micro-dollars per million tokens, which is dollars per million tokens times a million.

    None: those tokens cost as much as other input.
    """

    input_microusd: int
    output_microusd: int
    cached_microusd: int | None = None
    cache_write_microusd: int | None = None


@dataclass(frozen=True, slots=True)
class Price(Rates):
    """What a call costs in the rank of service that is asked for.

    `tiers`: the rates of a call that sends more than so many tokens, for all of its tokens; the smallest first.
    `ranks`: what it costs where the provider says that it has served it with another rank.
    """

    tiers: tuple[tuple[int, Rates], ...] = ()
    ranks: tuple[tuple[str, Price], ...] = ()

    def rates(self, input_tokens: int) -> Rates:
        reached = [rates for above_tokens, rates in self.tiers if input_tokens > above_tokens]
        return reached[-1] if reached else self

    def served_with(self, rank: str) -> Price:
        """
        >>> asked = Price(2_000_000, 2_000_000, ranks=(("default", Price(1_000_000, 1_000_000)),))
        >>> [asked.served_with(rank).input_microusd for rank in ("", "default", "unheard-of")]
        [2000000, 1000000, 2500000]
        """
        known = dict(self.ranks)
        if rank in known or rank in USUAL_RANKS:
            return known.get(rank, self)
        return dearest(known.get(DEFAULT_RANK, self))


FREE = Price(0, 0)
DEFAULT_RANK = "default"
# What ranks of service cost no more than the listed price; `flex` and `batch` cost less where the list says so. Any
# other rank (`priority`, `performance`, `scale`) is charged as listed, and else at the most that the list has for any
# model beside its usual price (litellm 1.83, 2026-11: 1.2 to 2.5 times).
USUAL_RANKS = frozenset(("", "auto", "default", "standard", "standard_only", "on_demand", "flex", "batch"))
DEAREST_RANK = 2.5


def dearest(price: Price) -> Price:
    """What a call of a better rank costs at most, where nobody says what.

    >>> found = dearest(Price(1_000_000, 2_000_000, tiers=((200_000, Rates(3, 5)),)))
    >>> (found.input_microusd, found.output_microusd), found.rates(200_001).output_microusd
    ((2500000, 5000000), 13)
    """
    tiers = tuple((above, Rates(**_multiplied(rates))) for above, rates in price.tiers)
    return Price(**_multiplied(price), tiers=tiers)


def _multiplied(rates: Rates) -> dict[str, Any]:
    named = {field.name: getattr(rates, field.name) for field in fields(Rates)}
    return {name: None if rate is None else math.ceil(rate * DEAREST_RANK) for name, rate in named.items()}


def cost_microusd(price: Price, usage: Usage, service_rank: str = "") -> int:
    """The cost of a call, rounded up, so that a cap is never undercut by many small calls. Reasoning is output.

    >>> cost_microusd(Price(3_000_000, 15_000_000), Usage(input_tokens=1_000, output_tokens=100))
    4500
    >>> cost_microusd(Price(3_000_000, 15_000_000, 300_000, 3_750_000), Usage(input_tokens=10, cached_tokens=8))
    9
    """
    rates = price.served_with(service_rank).rates(usage.input_tokens)
    cached = min(usage.cached_tokens, usage.input_tokens)
    written = min(usage.cache_write_tokens, usage.input_tokens - cached)
    parts = (
        (usage.input_tokens - cached - written) * rates.input_microusd,
        cached * (rates.input_microusd if rates.cached_microusd is None else rates.cached_microusd),
        written * (rates.input_microusd if rates.cache_write_microusd is None else rates.cache_write_microusd),
        usage.output_tokens * rates.output_microusd,
    )
    return -(-sum(parts) // TOKENS_PER_PRICE)
