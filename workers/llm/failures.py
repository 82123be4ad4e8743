"""What went wrong at a provider, told from its status, its words and its codes. Pure; knows no library."""

from __future__ import annotations

import html
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from envelope.redaction import redact_head

from ..duck import first
from .base import Failed, Failure
from .overflow import is_overflow
from .pauses import HEADERS
from .retry_after import hinted_ms

# A whole error page is no help; the first words say it.
MAX_MESSAGE_CHARS = 300
# What an error says stands at its beginning; a page of megabytes is not searched to its end.
MAX_JUDGED_CHARS = 16_000
RETRY_AFTER = ("retry-after-ms", "retry-after")
RETRY_HEADERS = (*RETRY_AFTER, *HEADERS)

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
    (re.compile(words, re.IGNORECASE | re.DOTALL), failure)
    for words, failure in (
        (r"provider not provided|model_not_found|model .{0,200}(does not exist|not found)", Failure.UNKNOWN_MODEL),
        (r"missing credentials|api[_ ]key.{0,80}(missing|must be set|required|pass)", Failure.AUTH),
        # no money left: OpenAI, Moonshot, z.ai, xAI, Anthropic
        (
            r"insufficient[_ ](quota|balance|funds|credits?)|exceeded_current_quota|used all available credits",
            Failure.AUTH,
        ),
        (r"credit balance is too low|billing_hard_limit|check your plan and billing", Failure.AUTH),
        (r"content[_ ](policy|filter)|new_sensitive", Failure.CONTENT_FILTER),
        (r"rate[_ -]?limit|too[_ ]many[_ ]requests|exhausted", Failure.RATE_LIMIT),
        (r"\b(service[_ ]|server[_ ]|temporarily[_ ])?(unavailable|overloaded)(_error)?\b", Failure.UNAVAILABLE),
    )
)

_MARKUP = re.compile(r"<(script|style)\b.{0,8000}?</\1>|<[^<>]{0,2000}>", re.IGNORECASE | re.DOTALL)
_LIBRARY_PREFIX = re.compile(r"^(?:(?:litellm\.)?[A-Z]\w*(?:Error|Exception)?(?:: | - ))+")


@dataclass(frozen=True, slots=True)
class ProviderError:
    """What is known of a failed request. `status` is None when no answer came: the connection or the stream broke.

    `kind` is any further word (an error code, an exception's name); `provider` is the registry's name of whoever runs
    the server, when that is known. `hint_ms`: when its body says to come again, where no header does.
    """

    message: str = ""
    status: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    kind: str = ""
    provider: str = ""
    hint_ms: int = 0

    @property
    def failure(self) -> Failure:
        """By its words first, for providers share few status codes; where both speak, the better witness."""
        message = _LIBRARY_PREFIX.sub("", self.message[:MAX_JUDGED_CHARS])
        said = f"{self.kind} {message}"
        if is_overflow(message, self.status) or is_overflow(said, self.status):
            return Failure.OVERFLOW
        by_words = next((failure for words, failure in BY_WORDS if words.search(said)), None)
        by_status = self._by_status()
        # A busy provider may well mention tokens or quotas, and one that refuses a key may mention rates: then the
        # status is the better witness.
        if by_words is None or (by_status, by_words) in _STATUS_KNOWS_BETTER:
            return by_status
        return by_words

    def _by_status(self) -> Failure:
        if self.status == 404 and self.provider.startswith(("openai", "azure")):
            return Failure.UNAVAILABLE  # they answer so now and then for models that they do have
        if self.status is not None and 400 <= self.status < 500:
            return BY_STATUS.get(self.status, Failure.BAD_REQUEST)
        return Failure.UNAVAILABLE


class Judged(Protocol):
    """A failure whose kind is known: `Failed`, or `ProviderError`."""

    @property
    def failure(self) -> Failure: ...

    @property
    def headers(self) -> Mapping[str, str]: ...


def judged(error: object) -> Judged:
    """A failure of ours as it is; else what any HTTP library raises or tells: an object or a map that has some of
    `message`, `status` (or `status_code`), `code`, and `headers` (or a `response` with them).

    >>> judged({"status": 429, "headers": {"retry-after": 3}}).failure
    <Failure.RATE_LIMIT: 'rate_limit'>
    """
    if isinstance(error, Failed | ProviderError):
        return error
    response = first(error, "response")
    status = first(error, "status", "status_code") or first(response, "status", "status_code")
    headers: Any = first(error, "headers") or first(response, "headers")
    return ProviderError(
        message=str(first(error, "message") or (error if isinstance(error, BaseException) else "")),
        status=int(status) if re.fullmatch("[1-5][0-9]{2}", str(status)) else None,
        headers=_read_headers(headers),
        kind=f"{type(error).__name__} {first(error, 'code', 'kind', 'type') or ''}",
    )


def _read_headers(headers: Any) -> dict[str, str]:
    """A map's, or those of pairs."""
    try:
        return {str(name): str(value) for name, value in dict[Any, Any](headers or ()).items()}
    except (TypeError, ValueError):
        return {}


_STATUS_KNOWS_BETTER = frozenset(
    {(Failure.RATE_LIMIT, words) for words in Failure if words is not Failure.AUTH}
    | {
        (status, words)
        for status in (Failure.AUTH, Failure.UNKNOWN_MODEL)
        for words in (Failure.RATE_LIMIT, Failure.UNAVAILABLE)
    }
)


def interrupted(reason: str) -> Failed:
    """A reply that its server gave up, for a reason that is no end of a reply: it is asked for again."""
    return Failed(Failure.UNAVAILABLE, f"the model's reply was interrupted: {redact_head(reason, MAX_MESSAGE_CHARS)}")


def page_words(page: bytes) -> str:
    """The first words of a page, without its markup.

    >>> page_words(b"<html><head><style>p {}</style><title>502</title></head><p>Bad&nbsp;gateway</p>")
    '502 Bad gateway'
    """
    text = html.unescape(_MARKUP.sub(" ", page[:MAX_JUDGED_CHARS].decode(errors="replace")))
    return " ".join(text.split())[:MAX_MESSAGE_CHARS]


def failed(error: ProviderError) -> Failed:
    """The failure as the loop knows it: judged, its words shortened and without secrets."""
    read = " ".join(_LIBRARY_PREFIX.sub("", error.message[:MAX_JUDGED_CHARS]).split())
    said = redact_head(read, MAX_MESSAGE_CHARS)
    named = {name.lower(): value for name, value in error.headers.items()}
    kept = {name: named[name] for name in RETRY_HEADERS if name in named}
    hint_ms = error.hint_ms or hinted_ms(error.message)
    if hint_ms and not kept.keys() & RETRY_AFTER:
        kept["retry-after-ms"] = str(hint_ms)
    return Failed(error.failure, f"the model provider says: {said or 'nothing'}", kept)
