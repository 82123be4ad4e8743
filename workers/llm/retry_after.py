"""How long a provider asks us to wait, in every form in which it may say so. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import UTC
from email.utils import parsedate_to_datetime

_NUMBER = re.compile(r"\s*\d{1,18}(\.\d{1,18})?\s*", re.ASCII)


def asked_ms(headers: Mapping[str, object], *, now_ms: int) -> int:
    """How long the provider asks us to wait: `retry-after-ms`, else `retry-after` as seconds (rounded up to whole
    ones) or as an HTTP date. 0 when it does not say, or not in a way that we understand.

    >>> asked_ms({"Retry-After": "1.2"}, now_ms=0), asked_ms({"Retry-After": "Thu, 01 Jan 1970 00:00:07 GMT"}, now_ms=0)
    (2000, 7000)
    """
    named = {name.lower(): str(value) for name, value in headers.items()}
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
