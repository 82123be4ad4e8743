"""What one model call costs over all its tries, and the money that is set aside for it."""

from __future__ import annotations

from envelope.budget import Usage

from ..llm.base import Completed
from .tills import Pricing, Till


class Account:
    """`held_microusd` pays for one try: before another one as much is set aside anew as the lost one may have cost.

    A lost try is charged with its whole request, counted as for the reservation, and what it had said; never with more
    than `held_microusd`, where money is set aside at all.
    """

    def __init__(self, till: Till, price: Pricing, input_tokens: int, held_microusd: int) -> None:
        self._till, self._price = till, price
        self._input_tokens, self._one_try_microusd = input_tokens, held_microusd
        self._held_microusd = held_microusd
        self._latest_microusd = 0
        self.usage = Usage()
        self.cost_microusd = 0

    def add(self, output_tokens: int) -> None:
        usage = Usage(input_tokens=self._input_tokens, output_tokens=output_tokens)
        cost = self._price(usage, "")
        self._latest_microusd = min(cost, self._one_try_microusd) if self._one_try_microusd else cost
        self.usage += usage
        self.cost_microusd += self._latest_microusd

    def answered(self, reply: Completed) -> None:
        """The try that came to its end, by the provider's own count, and at its own price where it says one."""
        self.usage += reply.usage
        told = reply.cost_microusd
        self.cost_microusd += self._price(reply.usage, reply.service_rank) if told is None else max(0, told)

    async def may_go_on(self) -> bool:
        if not self._one_try_microusd:
            return True
        if not await self._till.reserve_more(self._latest_microusd):
            return False
        self._held_microusd += self._latest_microusd
        return True

    def close(self) -> None:
        """All that was set aside is free again; what the call cost is to be charged with the next report."""
        self._till.release(self._held_microusd)
        self._held_microusd = 0
