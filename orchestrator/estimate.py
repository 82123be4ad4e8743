"""What a goal will about cost, before anything is paid. Pure.

Every turn of an agent sends all that was said before, so that the cost grows with the square of the turns: from a few
turns to many there lies a factor of ten, and an estimate is a range.
"""

from __future__ import annotations

from dataclasses import dataclass

from envelope.agents import ModelPrice

# A goal that is a question, and one that edits, tests and mends, as runs of the built-in agents go.
FEW_TURNS, MANY_TURNS = 4, 30
# What each request begins with: prompt and tools of `build` are 11.5 kB, and a project's instructions a third of that
# again; then what a turn adds (a call and what it gave back), and what of it the model says itself.
START_TOKENS = 4_000
TURN_TOKENS = 1_200
REPLY_TOKENS = 250
BYTES_PER_TOKEN = 4
MILLION = 1_000_000


@dataclass(frozen=True, slots=True)
class Estimate:
    """Neither is more than what the caller's cap allows; where it does not even allow the low one, they are equal."""

    low_microusd: int
    high_microusd: int


def estimate(
    price: ModelPrice, *, prompt: str, agents: int = 1, cap_microusd: int | None = None, history_tokens: int = 0
) -> Estimate:
    """Of so many agents with a prompt like this one. `history_tokens`: what was said before, in a session that goes on.

    >>> estimate(ModelPrice(input_microusd=1_000_000, output_microusd=5_000_000), prompt="mend it")
    Estimate(low_microusd=28208, high_microusd=679560)
    >>> estimate(ModelPrice(input_microusd=1_000_000, output_microusd=0), prompt="", history_tokens=50_000).low_microusd
    207200
    >>> estimate(ModelPrice(input_microusd=0, output_microusd=0), prompt="mend it").high_microusd
    0
    """
    start = max(START_TOKENS, history_tokens) + -(-len(prompt.encode()) // BYTES_PER_TOKEN)
    low, high = (agents * _cost(price, start, turns) for turns in (FEW_TURNS, MANY_TURNS))
    cap = high if cap_microusd is None else cap_microusd
    return Estimate(min(low, cap), min(high, cap))


def _cost(price: ModelPrice, start: int, turns: int) -> int:
    sent = turns * start + TURN_TOKENS * turns * (turns - 1) // 2
    return -(-(sent * price.input_microusd + turns * REPLY_TOKENS * price.output_microusd) // MILLION)
