"""What a task may spend, and what it has spent."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from .wire import Wire

MICROUSD_PER_USD = 1_000_000

# As far as every reader counts exactly (Redis's Lua has doubles).
Count = Annotated[int, Field(ge=0, lt=2**53)]


class Budget(Wire):
    """Limits of one task, also drawn from the trace's. None: no limit of its own. Money is integer micro-dollars.

    `waits_at_cap`: when the trace's money is spent the task waits for somebody to raise its cap, and does not end.
    """

    max_cost_microusd: Count | None = None
    max_tokens: Count | None = None
    max_turns: Count | None = None
    max_tool_calls: Count | None = None
    waits_at_cap: bool = False


class Usage(Wire):
    """Tokens of one or many model calls.

    `input_tokens` counts all that was sent; `cached_tokens` says how many of them a provider's cache had already, and
    `cache_write_tokens` how many it took in. `reasoning_tokens` are among the `output_tokens`.
    """

    input_tokens: Count = 0
    output_tokens: Count = 0
    cached_tokens: Count = 0
    reasoning_tokens: Count = 0
    cache_write_tokens: Count = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cached_tokens=self.cached_tokens + other.cached_tokens,
            reasoning_tokens=self.reasoning_tokens + other.reasoning_tokens,
            cache_write_tokens=self.cache_write_tokens + other.cache_write_tokens,
        )

    @property
    def total_tokens(self) -> int:
        return self.input_tokens + self.output_tokens


class Metrics(Wire):
    """Sums over a task so far; a result's are final."""

    usage: Usage = Usage()
    cost_microusd: Count = 0
    latency_ms: Count = 0  # from its first start to now
    queue_ms: Count = 0  # from acceptance to its first start
    turns: Count = 0
    tool_calls: Count = 0
