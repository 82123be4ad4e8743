"""How long to leave a forge alone: what its limits say, and growing pauses where they say nothing. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from email.utils import parsedate_to_datetime

# A limit without a time: forges ask for a minute at least, and more each time.
LIMIT_PAUSE_S = 60.0
FIRST_PAUSE_S = 1.0
MAX_PAUSE_S = 60.0
JITTER = 0.25

_EMPTY = ("x-ratelimit-remaining", "ratelimit-remaining")
_RESETS = ("x-ratelimit-reset", "ratelimit-reset")
_SAID = ("secondary rate limit", "rate limit exceeded", "abuse detection")


def is_limit(status: int, headers: Mapping[str, str], text: str) -> bool:
    """Is this answer a limit of how often one may ask, and no verdict on what was asked?"""
    if status == 429:
        return True
    if status != 403:
        return False
    is_empty = any(headers.get(name) == "0" for name in _EMPTY)
    return is_empty or "retry-after" in headers or any(said in text.lower() for said in _SAID)


def limit_s(headers: Mapping[str, str], tries: int, now_s: float) -> float:
    """How long the limit holds: as long as it says, else a minute, doubled with each try.

    >>> limit_s({"retry-after": "30"}, 1, 0.0), limit_s({"x-ratelimit-reset": "1090"}, 1, 1000.0), limit_s({}, 2, 0.0)
    (30.0, 90.0, 120.0)
    """
    if asked := headers.get("retry-after"):
        return _retry_after_s(asked, now_s)
    resets = (headers[name] for name in _RESETS if headers.get(name, "").isdigit())
    until_s = next(map(float, resets), None)
    return max(0.0, until_s - now_s) if until_s is not None else LIMIT_PAUSE_S * 2 ** (tries - 1)


def pause_s(tries: int, chance: float) -> float:
    """After a try that failed; `chance` from 0 to 1 spreads those that failed together."""
    return min(MAX_PAUSE_S, FIRST_PAUSE_S * 2 ** (tries - 1)) * (1 + JITTER * (2 * chance - 1))


def _retry_after_s(text: str, now_s: float) -> float:
    if text.isascii() and text.isdigit():
        return float(text)
    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - now_s)
    except ValueError:
        return LIMIT_PAUSE_S
