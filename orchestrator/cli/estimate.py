"""What a person is told of the cost before the first paid call, and asked when it may be much."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from envelope.agents import WorkerCard

from ..estimate import Estimate, estimate
from ..units import dollars
from .console import early, interactive
from .interrupt import read_line


@dataclass(frozen=True, slots=True)
class Spending:
    """Work that is about to be submitted. `may_ask`: somebody waits for it at a terminal, and did not say --yes."""

    prompt: str
    model: str  # empty: the workers' own
    cap_microusd: int | None
    may_ask: bool
    agents: int = 1
    history_tokens: int = 0  # of a session that goes on


async def agreed(spending: Spending, workers: Iterable[WorkerCard], *, ask_above_microusd: int) -> bool:
    """Tell what it will about cost; False when the person says no. Nobody is asked who cannot answer."""
    card = next((card for card in workers if card.model and spending.model in ("", card.model)), None)
    if card is None:
        return True  # without a model nothing is paid, and of another one a worker says what it thinks of it
    if card.price is None:
        early(f"estimate: none, the price of {card.model} is not known")
        return True
    cap = spending.cap_microusd
    about = estimate(
        card.price,
        prompt=spending.prompt,
        agents=spending.agents,
        cap_microusd=cap,
        history_tokens=spending.history_tokens,
    )
    if not about.high_microusd:
        return True
    early(estimate_text(about, card.model, spending))
    if about.high_microusd <= ask_above_microusd or not (spending.may_ask and interactive()):
        return True
    early("go on? [y/N]", end=" ")
    return (await read_line()).strip().lower() in ("y", "yes")


def estimate_text(about: Estimate, model: str, spending: Spending) -> str:
    """
    >>> estimate_text(Estimate(40_000, 5_000_000), "openai/gpt-5", Spending("", "", 5_000_000, may_ask=False))
    'estimate: $0.0400 to $5.00 with openai/gpt-5; at $5.00 it stops'
    """
    whom = f" by {spending.agents} agents" if spending.agents > 1 else ""
    cap = "" if spending.cap_microusd is None else f"; at {dollars(spending.cap_microusd)} it stops"
    pays = about.low_microusd < about.high_microusd
    cost = f"{dollars(about.low_microusd)} to {dollars(about.high_microusd)}" if pays else "more than the budget"
    return f"estimate: {cost}{whom} with {model}{cap}"
