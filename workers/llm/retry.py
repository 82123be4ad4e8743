"""Trying a model again: how often, how long to wait, and when not to."""

from __future__ import annotations

import asyncio
import math
import random
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Protocol

from envelope.events import RetryScheduled

from ..clock import now_ms
from .base import ChatMessage, ChatModel, Completed, Failed, Failure, ModelEvent, Retry, ToolSpec

RETRYABLE = frozenset({Failure.RATE_LIMIT, Failure.UNAVAILABLE})
# The longest wait that timers of 32 bits know, 24 days. A deadline ends the task long before.
MAX_WAIT_MS = 2**31 - 1
_NUMBER = re.compile(r"\s*\d{1,18}(\.\d{1,18})?\s*", re.ASCII)


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Five tries within about a minute outlast what providers call an incident; longer ones are the operator's turn."""

    tries: int = 5
    base_ms: int = 2_000
    cap_ms: int = 30_000


DEFAULT_POLICY = RetryPolicy()


class Judged(Protocol):
    """A failure whose kind is known: `Failed`, or `failures.ProviderError`."""

    @property
    def failure(self) -> Failure: ...

    @property
    def headers(self) -> Mapping[str, str]: ...


def is_retryable(error: Judged) -> bool:
    """May the same request succeed later? Whether there is time for it is not asked here."""
    return error.failure in RETRYABLE


def wait_ms(
    error: Judged,
    attempt: int,
    *,
    now_ms: int,
    policy: RetryPolicy = DEFAULT_POLICY,
    jitter: Callable[[], float] = random.random,
) -> int:
    """How long to wait after the failed try `attempt` (from 1). `now_ms` is what an HTTP date is measured from.

    Exponential up to the cap, spread over a factor of two by `jitter` in [0, 1), and never shorter than what the
    provider asks for.

    >>> [wait_ms(Failed(Failure.UNAVAILABLE, ""), n, now_ms=0, jitter=lambda: 0.0) for n in (1, 2, 3, 4, 5)]
    [2000, 4000, 8000, 16000, 30000]
    """
    doublings = min(max(attempt, 1) - 1, 32)  # far beyond any cap, and no number of a million digits
    grown = min(policy.base_ms * 2**doublings * (1 + jitter()), policy.cap_ms)
    return min(math.ceil(max(grown, asked_ms(error.headers, now_ms=now_ms))), MAX_WAIT_MS)


def asked_ms(headers: Mapping[str, str], *, now_ms: int) -> int:
    """How long the provider asks us to wait: `retry-after-ms`, else `retry-after` as seconds (rounded up to whole
    ones) or as an HTTP date. 0 when it does not say, or not in a way that we understand.

    >>> asked_ms({"Retry-After": "1.2"}, now_ms=0), asked_ms({"Retry-After": "Thu, 01 Jan 1970 00:00:07 GMT"}, now_ms=0)
    (2000, 7000)
    """
    named = {name.lower(): value for name, value in headers.items()}
    by_ms, by_s = named.get("retry-after-ms", ""), named.get("retry-after", "")
    if _NUMBER.fullmatch(by_ms):
        return math.ceil(float(by_ms))
    if _NUMBER.fullmatch(by_s):
        return math.ceil(float(by_s)) * 1000
    try:
        at = parsedate_to_datetime(by_s)
        at_ms = at.replace(tzinfo=at.tzinfo or UTC).timestamp() * 1000
    except (ValueError, TypeError, OverflowError):  # whatever a server writes there
        return 0
    return max(0, math.ceil(at_ms - now_ms))


@dataclass(frozen=True, slots=True)
class Retrying:
    """A model that is asked again when a try fails in a way that may pass.

    What a failed try had streamed already is void: the next try streams its reply from the start, and `Completed`
    holds that reply alone, with the tries that failed as `retries`. `on_retry` is told before each wait, so that
    watchers can drop the partial text. No retry begins that could not start within `time_left_s()`.
    """

    model: ChatModel
    on_retry: Callable[[RetryScheduled], None]
    policy: RetryPolicy = DEFAULT_POLICY
    time_left_s: Callable[[], float] = lambda: math.inf
    jitter: Callable[[], float] = random.random
    pause: Callable[[float], Awaitable[None]] = asyncio.sleep
    now_ms: Callable[[], int] = now_ms

    @property
    def name(self) -> str:
        return self.model.name

    async def stream(
        self, messages: Sequence[ChatMessage], tools: Sequence[ToolSpec]
    ) -> AsyncGenerator[ModelEvent, None]:
        failed: list[Retry] = []
        for attempt in range(1, self.policy.tries + 1):
            failure = Failed(Failure.UNAVAILABLE, "the model's stream stopped without an end")
            async with aclosing(self.model.stream(messages, tools)) as events:
                async for event in events:
                    if isinstance(event, Failed):
                        failure = event
                        break
                    if isinstance(event, Completed):
                        yield replace(event, retries=tuple(failed)) if failed else event
                        return
                    yield event
            at_ms = self.now_ms()
            pause_ms = wait_ms(failure, attempt, now_ms=at_ms, policy=self.policy, jitter=self.jitter)
            in_time = pause_ms / 1000 < self.time_left_s()
            if not (is_retryable(failure) and attempt < self.policy.tries and in_time):
                yield failure
                return
            failed.append(Retry(attempt=attempt, wait_ms=pause_ms, reason=failure.message, at_ms=at_ms))
            self.on_retry(RetryScheduled(attempt=attempt, wait_ms=pause_ms, reason=failure.message))
            await self.pause(pause_ms / 1000)
