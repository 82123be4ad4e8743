"""What a provider that refuses a call for want of capacity says about when to come again. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime

from .base import Failed, Failure
from .retry_after import asked_ms

# Of a provider that does not say: long enough to be no hammering, short enough to lose little.
DEFAULT_PAUSE_MS = 1_000
# What is used up → when it is there again. The first two speak in durations, the others in moments.
RESETS = {
    "x-ratelimit-remaining-requests": "x-ratelimit-reset-requests",
    "x-ratelimit-remaining-tokens": "x-ratelimit-reset-tokens",
    "anthropic-ratelimit-requests-remaining": "anthropic-ratelimit-requests-reset",
    "anthropic-ratelimit-tokens-remaining": "anthropic-ratelimit-tokens-reset",
    "anthropic-ratelimit-input-tokens-remaining": "anthropic-ratelimit-input-tokens-reset",
    "anthropic-ratelimit-output-tokens-remaining": "anthropic-ratelimit-output-tokens-reset",
}
HEADERS = (*RESETS, *RESETS.values())

_UNIT_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000}
_PART = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)(ms|s|m|h)", re.ASCII)
_DURATION = re.compile(rf"(?:{_PART.pattern})+", re.ASCII)


def is_congestion(failure: Failed) -> bool:
    """Was it refused for want of capacity: a 429, or a server that calls itself overloaded?"""
    overloaded = failure.failure is Failure.UNAVAILABLE and "overloaded" in failure.message.lower()
    return failure.failure is Failure.RATE_LIMIT or overloaded


def pause_ms(headers: Mapping[str, str], *, now_ms: int) -> int:
    """How long nobody should call: `Retry-After`, else the latest reset of what is used up, else a second.

    >>> pause_ms({"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "1m0.5s"}, now_ms=0)
    60500
    """
    named = {name.lower(): value for name, value in headers.items()}
    used_up = [reset for left, reset in RESETS.items() if named.get(left, "").strip() == "0"]
    resets = [_until_ms(named.get(reset, ""), now_ms) for reset in used_up]
    return asked_ms(named, now_ms=now_ms) or max(resets, default=0) or DEFAULT_PAUSE_MS


def _until_ms(text: str, now_ms: int) -> int:
    """A duration (`6m0s`, `20ms`) or a moment (RFC 3339); 0 when it is neither."""
    if _DURATION.fullmatch(text):
        return math.ceil(sum(float(number) * _UNIT_MS[unit] for number, unit in _PART.findall(text)))
    try:
        at = datetime.fromisoformat(text)
        return max(0, math.ceil(at.replace(tzinfo=at.tzinfo or UTC).timestamp() * 1000 - now_ms))
    except (ValueError, OverflowError):
        return 0
