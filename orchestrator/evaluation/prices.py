"""Whether a suite's budget can be counted, as far as live workers tell. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from envelope.agents import WorkerCard, price_line

from ..catalogue import agents_of
from ..errors import BadInput
from .spec import Variant


def require_prices(variants: Sequence[Variant], workers: Sequence[WorkerCard]) -> None:
    """`BadInput` where a variant's model is the workers' own, and none of them knows its price: a suite always has a
    budget, and no sample could begin. Of other models only a worker that is asked for them can tell."""
    agents = agents_of(workers)
    serving = [card for card in workers if card.model]
    for variant in variants:
        model = variant.model or (agents[variant.agent].model if variant.agent in agents else "")
        asked = [card for card in serving if model in ("", card.model)]
        if asked and not any(card.price for card in asked):
            message = f"the price of {asked[0].model} is not known, and no sample of {variant.name!r} could be paid"
            raise BadInput(
                message,
                hint=f"say it to the workers, in micro-dollars for a million tokens: {price_line(asked[0].model)}",
            )
