"""What is true of a provider's reply, and what all formats share: events, and errors. Knows nothing of ours."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]

# How a reply ended.
ANSWER, CALLS, LENGTH, REFUSED, PAUSED = "answer", "tool_calls", "length", "refused", "paused"
INTERRUPTED, ERROR = "interrupted", "error"


@dataclass
class Call:
    """A call that the client must run. `arguments` are parsed, or None when their text is no JSON object."""

    id: str = field(compare=False)  # two readings of one reply may make up different ones
    name: str
    text: str

    @property
    def arguments(self) -> Json | None:
        try:
            value = json.loads(self.text or "{}")
        except ValueError:
            return None
        return value if isinstance(value, dict) else None


@dataclass
class Truth:
    """`back`: what the next request must hold of this reply, in its wire's own words (see `back.py`)."""

    kind: str = INTERRUPTED
    text: str = ""
    reasoning: str = ""
    calls: list[Call] = field(default_factory=list)
    usage: dict[str, int] | None = None
    back: Any = None
    again: Any = None  # the same said once more, in other words; either may be sent back
    error: str = ""
    also: tuple[str, ...] = ()  # other kinds that are as good a reading
    pieces: int = 1  # texts that came apart: how they are joined is the reader's

    def failed(self, error: str) -> Truth:
        self.kind, self.error = ERROR, error
        return self


def events_of(body: bytes) -> Iterator[Any]:
    """Server-sent events as https://html.spec.whatwg.org/multipage/server-sent-events.html has them; one that is cut
    off at the end counts if it is whole JSON. `[DONE]` comes as None, and ends everything."""
    text = body.decode("utf-8", "replace").removeprefix("\ufeff")
    data: list[str] = []
    for line in [*re.split(r"\r\n|\n|\r", text), ""]:
        if line.startswith("data:"):
            data.append(line[5:].removeprefix(" "))
        elif not line and data:
            whole, data = "\n".join(data), []
            if whole.strip() == "[DONE]":
                yield None
                return
            yield json.loads(whole)


# --- errors


def refusal_of(status: int, body: bytes) -> Truth:
    try:
        answer = json.loads(body)
    except ValueError:
        return Truth().failed(_error_class(status, body.decode("utf-8", "replace"), ""))
    error = answer.get("error", answer) if isinstance(answer, dict) else {}
    return in_band(error if isinstance(error, dict) else {"message": str(error)}, status)


# The types of https://platform.claude.com/docs/en/api/errors, and codes of OpenAI's and Google's.
_STATUS = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "api_error": 500,
    "server_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
    "invalid_prompt": 400,
}


def in_band(error: Mapping[str, Any], status: int | None = None) -> Truth:
    """An error's object, wherever it came: with a status, in a stream, or in a reply with 200."""
    code, kind = error.get("code"), str(error.get("type") or "")
    if isinstance(error.get("status_code"), int):
        status = status or error["status_code"]
    if isinstance(code, int) and 400 <= code < 600:
        status = status or code
    status = status or _STATUS.get(kind) or _STATUS.get(str(code)) or 500
    return Truth().failed(_error_class(status, str(error.get("message") or ""), f"{code or ''} {kind}"))


def _error_class(status: int, message: str, code: str) -> str:
    if "tool_use_failed" in code:  # https://console.groq.com/docs/tool-use: the model may try again
        return "tool_use_failed"
    if "context_length_exceeded" in code or re.search(r"prompt is too long|exceed context limit", message):
        return "overflow"
    if "insufficient_quota" in code:
        return "auth"
    classes = {401: "auth", 402: "auth", 403: "auth", 404: "unknown_model", 413: "overflow", 429: "rate_limit"}
    if status in (408, 409) or status >= 500:
        return "unavailable"
    return classes.get(status, "bad_request")
