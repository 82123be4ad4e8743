"""What a model call costs. Money is integer micro-dollars."""

from __future__ import annotations

from dataclasses import dataclass

from envelope.budget import Usage

TOKENS_PER_PRICE = 1_000_000


@dataclass(frozen=True, slots=True)
class Price:
    """Micro-dollars per million tokens, which is dollars per million tokens times a million."""

    input_microusd: int
    output_microusd: int
    cached_microusd: int | None = None  # None: cached tokens cost as much as others


def cost_microusd(price: Price, usage: Usage) -> int:
    """The cost of a call, rounded up, so that a cap is never undercut by many small calls.

    >>> cost_microusd(Price(3_000_000, 15_000_000), Usage(input_tokens=1_000, output_tokens=100))
    4500
    """
    cached_price = price.input_microusd if price.cached_microusd is None else price.cached_microusd
    cached = min(usage.cached_tokens, usage.input_tokens)
    parts = (
        (usage.input_tokens - cached) * price.input_microusd,
        cached * cached_price,
        usage.output_tokens * price.output_microusd,
    )
    return -(-sum(parts) // TOKENS_PER_PRICE)
