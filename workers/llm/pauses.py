"""What a provider that refuses a call for want of capacity says about when to come again. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from .base import Failed, Failure
from .retry_after import asked_ms, until_ms

# Of a provider that does not say: long enough to be no hammering, short enough to lose little.
DEFAULT_PAUSE_MS = 1_000
# What is used up → when it is there again: a duration, a number of seconds, or a moment.
RESETS = {
    "x-ratelimit-remaining-requests": "x-ratelimit-reset-requests",
    "x-ratelimit-remaining-tokens": "x-ratelimit-reset-tokens",
    "x-ratelimit-remaining-requests-day": "x-ratelimit-reset-requests-day",  # Cerebras
    "x-ratelimit-remaining-tokens-minute": "x-ratelimit-reset-tokens-minute",
    "x-ratelimit-remaining": "x-ratelimit-reset",  # OpenRouter
    "anthropic-ratelimit-requests-remaining": "anthropic-ratelimit-requests-reset",
    "anthropic-ratelimit-tokens-remaining": "anthropic-ratelimit-tokens-reset",
    "anthropic-ratelimit-input-tokens-remaining": "anthropic-ratelimit-input-tokens-reset",
    "anthropic-ratelimit-output-tokens-remaining": "anthropic-ratelimit-output-tokens-reset",
}
HEADERS = (*RESETS, *RESETS.values())


def is_congestion(failure: Failed) -> bool:
    """Was it refused for want of capacity: a 429, or a server that calls itself overloaded?"""
    overloaded = failure.failure is Failure.UNAVAILABLE and "overloaded" in failure.message.lower()
    return failure.failure is Failure.RATE_LIMIT or overloaded


def told_ms(headers: Mapping[str, str], *, now_ms: int) -> int:
    """How long the provider asks nobody to call: `Retry-After`, else the latest reset of what is used up; else 0.

    >>> told_ms({"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "1m0.5s"}, now_ms=0)
    60500
    """
    named = {name.lower(): value for name, value in headers.items()}
    used_up = [reset for left, reset in RESETS.items() if named.get(left, "").strip() == "0"]
    resets = [until_ms(named.get(reset, ""), now_ms) for reset in used_up]
    return asked_ms(named, now_ms=now_ms) or max(resets, default=0)


def pause_ms(headers: Mapping[str, str], *, now_ms: int) -> int:
    """`told_ms`, else a second."""
    return told_ms(headers, now_ms=now_ms) or DEFAULT_PAUSE_MS
