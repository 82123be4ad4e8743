"""The money of a trace, as a session's model calls draw on it (see `agent/paying.py`)."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from envelope.budget import Usage
from envelope.errors import ErrorCode
from envelope.events import BudgetReached
from transport.money import Ledger

from ..agent.budget import Stop, to_go_on
from ..agent.compaction import MAX_OUTPUT_TOKENS
from ..delivery.reporter import Reporter
from ..llm.limits import ModelLimits
from ..llm.prices import TOKENS_PER_PRICE, Price, Rates, cost_microusd

# Where nobody knows how much a model can say, and money depends on it: enough to write a file of 30 KB.
ASSUMED_OUTPUT_TOKENS = 8_192
# Less room than this is no reply worth its input.
MIN_OUTPUT_TOKENS = 1_024
# A call of a trace with subagents leaves the others what they need.
CALLS_AT_ONCE = 8
# Others hold what is missing, and give most of it back when their call has ended: in a second, or in a minute.
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.02, 1.0


class TraceTill:
    """`output_tokens` is what the next call may say at most, and is sent with it: else no estimate would be a bound.

    None: as much as it likes, since nothing is capped. It shrinks when the money comes to its end.
    """

    def __init__(
        self, reporter: Reporter, price: Price | None, limits: ModelLimits, *, waits_at_cap: bool = False
    ) -> None:
        self._reporter = reporter
        self._price = None if price is None else _worst(price)
        self._waits_at_cap = waits_at_cap
        self._limit = limits.output or ASSUMED_OUTPUT_TOKENS
        self.output_tokens: int | None = None

    async def reserve(self, input_tokens: int, own_left_microusd: int | None = None) -> int | Stop:
        """Waits while other calls of the trace hold what is missing; a stop when the money is spent."""
        ledger: Ledger | None = self._reporter.ledger.tightest
        if ledger.cap_microusd is None and own_left_microusd is None:
            return 0
        if self._price is None:  # the cap came later
            return _unpriced()
        pause_s = FIRST_PAUSE_S
        while ledger is not None:
            left = None if ledger.cap_microusd is None else ledger.cap_microusd - ledger.spent_microusd
            call = None if left is not None and left < 0 else self._affordable(left, own_left_microusd, input_tokens)
            if call is None:
                if own_left_microusd is not None and (left is None or own_left_microusd < left):
                    return _own_spent(own_left_microusd)
                break
            self.output_tokens = call.output_tokens
            if await self._reporter.reserve(call.microusd):
                return call.microusd
            ledger, known = await self._look(), ledger
            if ledger is not None and ledger.spent_microusd == known.spent_microusd:
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
        found = self._reporter.ledger
        is_tenants = found.tightest is not found
        return _spent(ledger or found.tightest, waits=self._waits_at_cap, is_tenants=is_tenants)

    def _affordable(self, left: int | None, own_left: int | None, input_tokens: int) -> _Call | None:
        """The call with as much room for its reply as what is not spent yet can pay. No other call has what is own."""
        assert self._price is not None
        call = None
        limit = self._limit
        for amount, at_once in ((left, CALLS_AT_ONCE), (own_left, 1)):
            if amount is None:
                continue
            call = _affordable(self._price, amount, input_tokens, limit, at_once=at_once)
            if call is None:
                return None
            limit = call.output_tokens
        return call

    async def _look(self) -> Ledger | None:
        """The money as it is now; None when more is spent and set aside than the cap allows."""
        found = await self._reporter.reserve(0)
        return None if found is None else found.tightest

    async def reserve_more(self, microusd: int) -> bool:
        return await self._reporter.reserve(microusd) is not None

    def release(self, microusd: int) -> None:
        self._reporter.release(microusd)


@dataclass(frozen=True, slots=True)
class _Call:
    output_tokens: int
    microusd: int


def _affordable(price: Price, left: int, input_tokens: int, output_tokens: int, *, at_once: int) -> _Call | None:
    for_input = cost_microusd(price, Usage(input_tokens=input_tokens))
    if per_output := price.rates(input_tokens).output_microusd:
        paid = max(0, left - for_input) * TOKENS_PER_PRICE // per_output
        if paid < min(output_tokens, MIN_OUTPUT_TOKENS):
            return None
        # Thoughts count, too, so a model's own limit is high; but what one call may cost, no other can have.
        output_tokens = min(output_tokens, paid, max(MAX_OUTPUT_TOKENS, paid // at_once))
    whole = cost_microusd(price, Usage(input_tokens=input_tokens, output_tokens=output_tokens))
    return _Call(output_tokens, whole) if whole <= left else None


def _worst(price: Price) -> Price:
    """Nobody knows before how much of the input the provider has cached, or will cache, nor what that costs."""
    tiers = tuple(
        (above_tokens, Rates(_worst_input(rates), rates.output_microusd)) for above_tokens, rates in price.tiers
    )
    return Price(_worst_input(price), price.output_microusd, tiers=tiers)


def _worst_input(rates: Rates) -> int:
    return max(rates.input_microusd, rates.cached_microusd or 0, rates.cache_write_microusd or 0)


def _spent(ledger: Ledger, *, waits: bool, is_tenants: bool) -> Stop:
    spent, cap = ledger.spent_microusd, ledger.cap_microusd or 0
    whose = "tenant" if is_tenants else "trace"
    return Stop(
        BudgetReached(limit="cost", spent=spent, allowed=cap, whose=whose),
        ErrorCode.BUDGET,
        f"${spent / 1e6:.4f} of the {whose}'s ${cap / 1e6:.4f} are spent; what is left pays for no other model call",
        to_go_on(whose),
        waits_at_microusd=ledger.cap_microusd if waits else None,
        waits_for_tenant=waits and is_tenants,
    )


def _own_spent(left_microusd: int) -> Stop:
    return Stop(
        BudgetReached(limit="cost", spent=0, allowed=max(0, left_microusd)),
        ErrorCode.BUDGET,
        f"${max(0, left_microusd) / 1e6:.4f} are left of the task's own budget, which pays for no other model call",
        to_go_on("trace"),
    )


def _unpriced() -> Stop:
    return Stop(
        BudgetReached(limit="cost", spent=0, allowed=0),
        ErrorCode.BUDGET,
        "the price of the model is not known, and there is a cost cap by now",
        "name its price in MUSTER_PRICES, then `muster task resume TASK`",
    )
