"""What no log, event or report may show. Pure: text in, text out.

Two nets: the secrets that this process knows (registered by whoever reads them from the environment or a file), and
the shapes that keys of well-known services have.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, cast

REDACTED = "[redacted]"

# Shorter values (a port, "true") would blank out half the text.
MIN_SECRET_CHARS = 8

_SHAPES = re.compile(
    r"""
    \b(?:sk|pk|rk)-[A-Za-z0-9_-]{16,}            # model providers
    | \bgh[pousr]_[A-Za-z0-9]{20,}                # GitHub
    | \bglpat-[A-Za-z0-9_-]{16,}                  # GitLab
    | \bAKIA[0-9A-Z]{16}\b                        # AWS access key id
    | \bxox[abprs]-[A-Za-z0-9-]{10,}              # Slack
    | \beyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{5,}   # a JSON web token
    | (?<=://)[^/\s:@]+:[^/\s:@]+(?=@)            # user:password in a URL
    | (?i:\bbearer\s+)[A-Za-z0-9._~+/-]{12,}=*    # an authorization header
    | -----BEGIN[ A-Z]*PRIVATE\ KEY-----.*?-----END[ A-Z]*PRIVATE\ KEY-----
    """,
    re.VERBOSE | re.DOTALL,
)

_SECRET_NAMES = re.compile(r"(?i)(api_?key|token|secret|passw(or)?d|credential|authorization|private_key)$")

_known: set[str] = set()


def register_secret(value: str) -> None:
    """Blank this value out everywhere from now on; too short ones are ignored."""
    if len(value) >= MIN_SECRET_CHARS:
        _known.add(value)


def register_environment(environ: Mapping[str, str]) -> None:
    """Register the values of all variables whose names say that they are secret (`…_API_KEY`, `…_TOKEN`, …)."""
    for name, value in environ.items():
        if _SECRET_NAMES.search(name):
            register_secret(value)


def redact(text: str) -> str:
    """The text with every known or well-known secret blanked out."""
    for secret in _known:
        if secret in text:
            text = text.replace(secret, REDACTED)
    return _SHAPES.sub(REDACTED, text)


def redact_value(value: Any) -> Any:
    """The same through lists and maps; keys that name a secret lose their whole value."""
    match value:
        case str():
            return redact(value)
        case dict():
            items = cast(dict[Any, Any], value).items()
            return {key: REDACTED if _names_secret(key) else redact_value(inner) for key, inner in items}
        case list() | tuple():
            return [redact_value(inner) for inner in cast(list[Any], value)]
        case _:
            return value


def _names_secret(key: Any) -> bool:
    return isinstance(key, str) and _SECRET_NAMES.search(key) is not None
