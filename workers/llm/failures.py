"""What went wrong at a provider, told from its status, its words and its headers. Pure; knows no library."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from envelope.redaction import redact

from .base import Failed, Failure

# A whole error page is no help; the first words say it.
MAX_MESSAGE_CHARS = 300

BY_STATUS: dict[int, Failure] = {
    400: Failure.BAD_REQUEST,
    401: Failure.AUTH,
    402: Failure.AUTH,  # the account has no money left: nothing that waiting mends
    403: Failure.AUTH,
    404: Failure.UNKNOWN_MODEL,
    408: Failure.UNAVAILABLE,
    409: Failure.UNAVAILABLE,
    413: Failure.OVERFLOW,
    422: Failure.BAD_REQUEST,
    429: Failure.RATE_LIMIT,
}

# Providers say these with a status that says something else, or none. The first that fits wins.
BY_WORDS: tuple[tuple[re.Pattern[str], Failure], ...] = tuple(
    (re.compile(words, re.IGNORECASE), failure)
    for words, failure in (
        (r"context[_ ](length|window|limit)|maximum context|prompt is too long", Failure.OVERFLOW),
        (r"too many (input )?tokens|input tokens exceed|exceeds the (maximum|available) .*tokens", Failure.OVERFLOW),
        (r"provider not provided|model_not_found|model .*(does not exist|not found)", Failure.UNKNOWN_MODEL),
        (r"missing credentials|api[_ ]key.*(missing|must be set|required|pass)|insufficient_quota", Failure.AUTH),
        (r"content[_ ](policy|filter)", Failure.CONTENT_FILTER),
    )
)  # fmt: skip

_LIBRARY_PREFIX = re.compile(r"^(?:(?:litellm\.)?[A-Z]\w*(?:Error|Exception)?(?:: | - ))+")


def failed(message: str, *, status: int | None, headers: Mapping[str, str], now: datetime, kind: str = "") -> Failed:
    """A failure from what is known of it. `kind` is any further word (an error code, an exception's name)."""
    said = redact(" ".join(_LIBRARY_PREFIX.sub("", message).split()))[:MAX_MESSAGE_CHARS]
    by_words = next((failure for words, failure in BY_WORDS if words.search(f"{kind} {message}")), None)
    by_status = BY_STATUS.get(status or 0, Failure.UNAVAILABLE)
    # A busy provider may well mention tokens or quotas: then its status is the better witness.
    failure = by_status if by_words is None or _is_rate_limit(by_status, by_words) else by_words
    return Failed(failure, f"the model provider says: {said or 'nothing'}", retry_after_s(headers, now=now))


def retry_after_s(headers: Mapping[str, str], *, now: datetime) -> float | None:
    """How long the provider asks us to wait: `retry-after-ms`, else `retry-after` as seconds or as an HTTP date.

    >>> retry_after_s({"Retry-After": "Sat, 21 Nov 2026 00:00:07 GMT"}, now=datetime(2026, 11, 21, tzinfo=timezone.utc))
    7.0
    """
    known = {name.lower(): value for name, value in headers.items()}
    for name, unit in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        try:
            return max(0.0, float(known[name]) / unit)
        except (KeyError, ValueError):
            continue
    try:
        at = parsedate_to_datetime(known["retry-after"])
    except (KeyError, ValueError):
        return None
    return max(0.0, (at.replace(tzinfo=at.tzinfo or UTC) - now).total_seconds())


def _is_rate_limit(by_status: Failure, by_words: Failure) -> bool:
    return by_status is Failure.RATE_LIMIT and by_words is not Failure.AUTH
