"""Trying a model again: how often, how long to wait, and when not to."""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass

from envelope.events import RetryScheduled

from .base import ChatMessage, ChatModel, Completed, Failed, Failure, ModelEvent, ToolSpec


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Five tries within about a minute outlast what providers call an incident; longer ones are the operator's turn."""

    tries: int = 5
    base_ms: int = 2_000
    cap_ms: int = 30_000


def wait_ms(failure: Failed, attempt: int, *, policy: RetryPolicy, jitter: float) -> int:
    """How long to wait after the failed try `attempt` (from 1).

    Exponential up to the cap, spread over a factor of two by `jitter` in [0, 1), and never shorter than what the
    provider asks for.

    >>> [wait_ms(Failed(Failure.UNAVAILABLE, ""), n, policy=RetryPolicy(), jitter=0.0) for n in (1, 2, 3, 4, 5)]
    [2000, 4000, 8000, 16000, 30000]
    """
    grown = min(policy.base_ms * 2 ** (attempt - 1) * (1 + jitter), policy.cap_ms)
    return math.ceil(max(grown, (failure.retry_after_s or 0.0) * 1000))


@dataclass(frozen=True, slots=True)
class Retrying:
    """A model that is asked again when a try fails in a way that may pass.

    What a failed try had streamed already is void: the next try streams its reply from the start, and `Completed`
    holds that reply alone. `on_retry` is told before each wait, so that watchers can drop the partial text. No retry
    begins that could not start within `time_left_s()`.
    """

    model: ChatModel
    on_retry: Callable[[RetryScheduled], None]
    policy: RetryPolicy = RetryPolicy()
    time_left_s: Callable[[], float] = lambda: math.inf
    jitter: Callable[[], float] = random.random
    pause: Callable[[float], Awaitable[None]] = asyncio.sleep

    @property
    def name(self) -> str:
        return self.model.name

    async def stream(
        self, messages: Sequence[ChatMessage], tools: Sequence[ToolSpec]
    ) -> AsyncGenerator[ModelEvent, None]:
        for attempt in range(1, self.policy.tries + 1):
            failure = Failed(Failure.UNAVAILABLE, "the model's stream stopped without an end")
            async with aclosing(self.model.stream(messages, tools)) as events:
                async for event in events:
                    if isinstance(event, Failed):
                        failure = event
                        break
                    yield event
                    if isinstance(event, Completed):
                        return
            pause_ms = wait_ms(failure, attempt, policy=self.policy, jitter=self.jitter())
            in_time = pause_ms / 1000 < self.time_left_s()
            if not (failure.retryable and attempt < self.policy.tries and in_time):
                yield failure
                return
            self.on_retry(RetryScheduled(attempt=attempt, wait_ms=pause_ms, reason=failure.message))
            await self.pause(pause_ms / 1000)
