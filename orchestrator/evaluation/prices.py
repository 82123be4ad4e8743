"""Whether a suite's budget can be counted, and pays for a call, as far as live workers tell. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from envelope.agents import ModelPrice, WorkerCard, price_hint
from envelope.budget import MICROUSD_PER_USD

from ..catalogue import agents_of
from ..errors import BadInput
from ..units import dollars
from .spec import Variant

# A worker makes no call that leaves less room than this for its reply (`workers/agent_task/till.py`), and no agent is
# asked with less than that: its tools alone are twice as long.
LEAST_OUTPUT_TOKENS, LEAST_INPUT_TOKENS = 1_024, 1_000


def require_prices(variants: Sequence[Variant], workers: Sequence[WorkerCard], *, least_cap_microusd: int) -> None:
    """`BadInput` where a variant's model is the workers' own, and none of them knows its price, or what the smallest
    sample may spend pays for no call: a suite always has a budget, and no sample could begin. Of other models only a
    worker that is asked for them can tell."""
    agents = agents_of(workers)
    serving = [card for card in workers if card.model]
    for variant in variants:
        model = variant.model or (agents[variant.agent].model if variant.agent in agents else "")
        asked = [card for card in serving if model in ("", card.model)]
        if asked and not any(card.price for card in asked):
            message = f"the price of {asked[0].model} is not known, and no sample of {variant.name!r} could be paid"
            raise BadInput(
                message,
                hint=price_hint(asked[0].model),
            )
        calls = [_least_call(card.price) for card in asked if card.price]
        if calls and least_cap_microusd < min(calls):
            message = f"a sample of {variant.name!r} may spend {dollars(least_cap_microusd)}, which pays for no call"
            raise BadInput(message, hint="raise limits.sample_budget_usd, or limits.budget_usd where it is shared")


def _least_call(price: ModelPrice) -> int:
    tokens = LEAST_INPUT_TOKENS * price.input_microusd + LEAST_OUTPUT_TOKENS * price.output_microusd
    return tokens // MICROUSD_PER_USD
