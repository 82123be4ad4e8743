"""Where the money for model calls is set aside."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from envelope.budget import Usage

from .budget import Stop

# Micro-dollars of a usage, in the rank of service that the provider says it gave ("": it says none).
Pricing = Callable[[Usage, str], int]


class Till(Protocol):
    """The money of a session's trace."""

    async def reserve(self, input_tokens: int, own_left_microusd: int | None = None) -> int | Stop:
        """Set aside what a call can cost at most, in micro-dollars; a stop when the cap does not allow the call, or
        what is left of the session's own budget does not."""
        ...

    async def reserve_more(self, microusd: int) -> bool:
        """Set aside as much again, for another try of a call; false when the cap does not allow it."""
        ...

    def release(self, microusd: int) -> None:
        """What was set aside is free again, in the same step in which the next reported turn is charged."""
        ...


class NoTill:
    """For a model without a price: it has no cap either."""

    async def reserve(self, input_tokens: int, own_left_microusd: int | None = None) -> int:
        return 0

    async def reserve_more(self, microusd: int) -> bool:
        return True

    def release(self, microusd: int) -> None:
        return None


NO_TILL = NoTill()
