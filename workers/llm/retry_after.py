"""How long a provider asks us to wait, in every form in which it may say so. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

# An error's body is read so far: a hint stands near its beginning.
READ_CHARS = 16_000

_NUMBER = re.compile(r"\s*\d{1,18}(\.\d{1,18})?\s*", re.ASCII)
_UNIT_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_PART = re.compile(r"(\d{1,9}(?:\.\d{1,18})?)(ms|s|m|h|d)", re.ASCII)
_DURATION = re.compile(rf"\s*(?:{_PART.pattern})+\s*", re.ASCII)
_SAID = r"\d{1,9}(?:\.\d{1,18})?"
# What bodies say, each with who was seen to say it. A bare number's unit comes with its pattern.
_HINTS: tuple[tuple[re.Pattern[str], int], ...] = tuple(
    (re.compile(words, re.IGNORECASE | re.ASCII), unit_ms)
    for words, unit_ms in (
        (rf'retry_?Delay\\?"\s*:\s*\\?"((?:{_SAID}(?:ms|s|m|h))+)\\?"', 1_000),  # Google's RetryInfo
        (rf'retry_?after_?ms\\?"\s*:\s*\\?"?({_SAID})\b', 1),
        (rf'retry[_-]?after(?:_?seconds)?\\?"\s*:\s*\\?"?({_SAID}(?:ms|s)?)\b', 1_000),  # gateways, OpenRouter
        (rf"(?:try again|retry) (?:in|after) ((?:{_SAID}(?:ms|s|m|h))+)\b", 1_000),  # OpenAI, Groq, Gemini
        (rf"(?:try again|retry) (?:in|after) ({_SAID}) ?(?:seconds?|secs?)\b", 1_000),  # Azure
        (rf"(?:try again|retry) (?:in|after) ({_SAID}) ?(?:milliseconds?)\b", 1),
        (rf"(?:try again|retry) (?:in|after) ({_SAID}) ?(?:minutes?)\b", 60_000),
    )
)


def asked_ms(headers: Mapping[str, object], *, now_ms: int) -> int:
    """How long the provider asks us to wait: `retry-after-ms`, else `retry-after` as seconds (rounded up to whole
    ones), as a duration or as an HTTP date. 0 when it does not say, or not in a way that we understand.

    >>> asked_ms({"Retry-After": "1.2"}, now_ms=0), asked_ms({"Retry-After": "Thu, 01 Jan 1970 00:00:07 GMT"}, now_ms=0)
    (2000, 7000)
    >>> asked_ms({"Retry-After": "500ms"}, now_ms=0)
    500
    """
    named = {name.lower(): str(value) for name, value in headers.items()}
    by_ms, by_s = named.get("retry-after-ms", ""), named.get("retry-after", "")
    if _NUMBER.fullmatch(by_ms):
        return math.ceil(float(by_ms))
    if _NUMBER.fullmatch(by_s):
        return math.ceil(float(by_s)) * 1000
    if duration := duration_ms(by_s):
        return duration
    try:
        at = parsedate_to_datetime(by_s)
        at_ms = at.replace(tzinfo=at.tzinfo or UTC).timestamp() * 1000
    except (ValueError, TypeError, OverflowError):  # whatever a server writes there
        return 0
    return max(0, math.ceil(at_ms - now_ms))


def hinted_ms(body: str) -> int:
    """What an error's body says of it, as JSON or in words; 0 when it does not.

    >>> hinted_ms('{"details": [{"retryDelay": "17s"}]}'), hinted_ms("Please try again in 1.5s."), hinted_ms("no")
    (17000, 1500, 0)
    """
    for words, unit_ms in _HINTS:
        if found := words.search(body[:READ_CHARS]):
            return duration_ms(found[1]) or math.ceil(float(found[1]) * unit_ms)
    return 0


def duration_ms(text: str) -> int:
    """
    >>> duration_ms("6m0s"), duration_ms("20ms"), duration_ms("soon")
    (360000, 20, 0)
    """
    if not _DURATION.fullmatch(text):
        return 0
    return math.ceil(sum(float(number) * _UNIT_MS[unit] for number, unit in _PART.findall(text)))


def until_ms(text: str, now_ms: int) -> int:
    """A reset: a duration, seconds, or a moment (RFC 3339, or seconds or milliseconds since 1970). 0: none of these.

    >>> until_ms("1m0.5s", 0), until_ms("7.5", 0), until_ms("1000000007", 1_000_000_000_000)
    (60500, 7500, 7000)
    """
    if _NUMBER.fullmatch(text):
        number = float(text)
        moment_ms = number if number >= 1e12 else number * 1000 if number >= 1e9 else now_ms + number * 1000
        return max(0, math.ceil(moment_ms - now_ms))
    if duration := duration_ms(text):
        return duration
    try:
        at = datetime.fromisoformat(text)
        return max(0, math.ceil(at.replace(tzinfo=at.tzinfo or UTC).timestamp() * 1000 - now_ms))
    except (ValueError, OverflowError):
        return 0
