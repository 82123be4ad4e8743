"""Trying a model again: how often, how long to wait, and when not to."""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace

from envelope.events import RetryScheduled

from ..clock import now_ms
from .base import ChatMessage, ChatModel, Completed, Failed, Failure, ModelEvent, Retry, ToolChoice, ToolSpec
from .failures import Judged, judged
from .lost import NOBODY_PAYS, LostTries, said_bytes, tokens_of_bytes
from .pauses import told_ms

RETRYABLE = frozenset({Failure.RATE_LIMIT, Failure.UNAVAILABLE})
# The longest wait that timers of 32 bits know, 24 days. A deadline ends the task long before.
MAX_WAIT_MS = 2**31 - 1
# A wait that the provider asks for: at least this part of our own, and spread by so much of it.
LEAST_OF_OWN = 0.125
SPREAD, MAX_SPREAD_MS = 0.25, 5_000


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Five tries within about a minute outlast what providers call an incident; longer ones are the operator's turn."""

    tries: int = 5
    base_ms: int = 2_000
    cap_ms: int = 30_000


DEFAULT_POLICY = RetryPolicy()


def is_retryable(error: Judged) -> bool:
    """May the same request succeed later? Whether there is time for it is not asked here."""
    return error.failure in RETRYABLE


def wait_ms(
    error: object,
    attempt: int,
    *,
    now_ms: int,
    policy: RetryPolicy = DEFAULT_POLICY,
    jitter: Callable[[], float] = random.random,
) -> int | None:
    """How long to wait after the failed try `attempt` (from 1). `now_ms` is what an HTTP date is measured from.

    None when waiting does not help: a full window, a refused key, a wrong request (see `failures`). Else as long as the
    provider asks for, and a little longer by `jitter` in [0, 1), so that not all come back at once; where it does not
    say, exponential up to the cap, spread over a factor of two. `error` is all that `failures.judged` takes. How many
    tries there are is `policy.tries`, and the caller's part.

    >>> [wait_ms(Failed(Failure.UNAVAILABLE, ""), n, now_ms=0, jitter=lambda: 0.0) for n in (1, 2, 3, 4, 5)]
    [2000, 4000, 8000, 16000, 30000]
    """
    known = judged(error)
    if not is_retryable(known):
        return None
    doublings = min(max(attempt, 1) - 1, 32)  # far beyond any cap, and no number of a million digits
    if told := told_ms(known.headers, now_ms=now_ms):
        # who says "in a millisecond" each time must not have all tries within one
        least = min(policy.base_ms * 2**doublings, policy.cap_ms) * LEAST_OF_OWN
        return min(math.ceil(max(told, least) + jitter() * min(told * SPREAD, MAX_SPREAD_MS)), MAX_WAIT_MS)
    return math.ceil(min(policy.base_ms * 2**doublings * (1 + jitter()), policy.cap_ms))


@dataclass(frozen=True, slots=True)
class Retrying:
    """A model that is asked again when a try fails in a way that may pass.

    What a failed try had streamed already is void: the next try streams its reply from the start, and `Completed`
    holds that reply alone, with the tries that failed as `retries`. `on_retry` is told before each wait, so that
    watchers can drop the partial text. No retry begins that could not start within `time_left_s()`. `lost` is told of
    each try that had begun to answer and did not end, also of one that is cut off, and asked before the next one.
    """

    model: ChatModel
    on_retry: Callable[[RetryScheduled], None]
    policy: RetryPolicy = DEFAULT_POLICY
    time_left_s: Callable[[], float] = lambda: math.inf
    jitter: Callable[[], float] = random.random
    pause: Callable[[float], Awaitable[None]] = asyncio.sleep
    now_ms: Callable[[], int] = now_ms
    lost: LostTries = NOBODY_PAYS

    @property
    def name(self) -> str:
        return self.model.name

    async def stream(
        self, messages: Sequence[ChatMessage], tools: Sequence[ToolSpec], tool_choice: ToolChoice = "auto"
    ) -> AsyncGenerator[ModelEvent, None]:
        failed: list[Retry] = []
        for attempt in range(1, self.policy.tries + 1):
            failure = Failed(Failure.UNAVAILABLE, "the model's stream stopped without an end")
            said: int | None = None  # None: no word and no thought of a reply has come
            try:
                async with aclosing(self.model.stream(messages, tools, tool_choice)) as events:
                    async for event in events:
                        if isinstance(event, Failed):
                            failure = event
                            break
                        if isinstance(event, Completed):
                            said = None
                            yield replace(event, retries=tuple(failed)) if failed else event
                            return
                        said = (said or 0) + said_bytes(event)
                        yield event
            finally:
                if said is not None:
                    self.lost.add(tokens_of_bytes(said))
            at_ms = self.now_ms()
            pause_ms = wait_ms(failure, attempt, now_ms=at_ms, policy=self.policy, jitter=self.jitter)
            is_last = attempt >= self.policy.tries
            if pause_ms is None or is_last or pause_ms / 1000 >= self.time_left_s():
                yield failure
                return
            if said is not None and not await self.lost.may_go_on():
                yield failure
                return
            failed.append(Retry(attempt=attempt, wait_ms=pause_ms, reason=failure.message, at_ms=at_ms))
            self.on_retry(RetryScheduled(attempt=attempt, wait_ms=pause_ms, reason=failure.message))
            await self.pause(pause_ms / 1000)
