"""What no log, event or report may show. Pure: text in, text out.

Two nets: the secrets that this process knows (registered by whoever reads them from the environment or a file), and
the shapes that keys of well-known services have.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, cast

REDACTED = "[redacted]"

# Shorter values (a port, "true") would blank out half the text.
MIN_SECRET_CHARS = 8

_VARIABLE = r"(?:\$[A-Z_][A-Z0-9_]*|\$?\{{1,2}[A-Za-z0-9_.]+\}{1,2})"  # in the place of a secret: no secret itself
_SHAPES = re.compile(
    r"""
    \b(?:sk|pk|rk)-[A-Za-z0-9_-]{16,}            # model providers
    | \bgh[pousr]_[A-Za-z0-9]{20,}                # GitHub
    | \bglpat-[A-Za-z0-9_-]{16,}                  # GitLab
    | \bAKIA[0-9A-Z]{16}\b                        # AWS access key id
    | \bxox[abprs]-[A-Za-z0-9-]{10,}              # Slack
    | \beyJ(?:(?!\beyJ)[A-Za-z0-9_-]){10,}\.[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{5,}   # a JSON web token
    | (?<=://)[^/\s:@]*:(?!VARIABLE@)[^/\s@]+(?=@)   # user:password in a URL; Redis's have no user
    | (?:(?<=https://)|(?<=http://))(?!(?:[^/\s:@]*:)?VARIABLE@)[^/\s@]+(?=@)  # a token in the place of the user
    | (?<=[?&]password=)[^&\s]+                   # Redis's other way to write it
    | (?i:\bbearer\s+)[A-Za-z0-9._~+/-]{12,}=*    # an authorization header
    | -----BEGIN[ A-Z]*PRIVATE\ KEY-----(?:(?!-----BEGIN).)*?-----END[ A-Z]*PRIVATE\ KEY-----
    """.replace("VARIABLE", _VARIABLE),  # none of them looks at a text again from each of a hundred thousand beginnings
    re.VERBOSE | re.DOTALL,
)

# What may be blanked out of something that people are asked to allow: a known secret that is one word and means
# nothing to a shell, and the user's part of an address. There these characters lead to no other host; "%" does, with
# git over ssh.
_WORD = re.compile(r"[A-Za-z0-9._~%+:@/=^,-]{1,256}")
_LOGIN = re.compile(r"[A-Za-z0-9_:][A-Za-z0-9_.~+:-]{0,255}")

# Every one of the shapes holds one of these, and hardly any other text does: to look for them is quick.
_HINTS = (
    "k-",
    "ghp_",
    "gho_",
    "ghu_",
    "ghs_",
    "ghr_",
    "glpat-",
    "AKIA",
    "xox",
    "eyJ",
    "://",
    "password=",
    "-----BEGIN",
)

# A private key in PEM, the longest of the shapes, has up to 3,300 characters (RSA, 4096 bits).
MAX_UNSETTLED_CHARS = 4096

# What may still become one of the shapes: none of them holds white space, but for these two.
_UNFINISHED = re.compile(
    r"""
    (?: -----BEGIN[ A-Z]*-{0,5}
      | -----BEGIN[ A-Z]*PRIVATE\ KEY----- (?: (?!-----END[ A-Z]*PRIVATE\ KEY-----) . )*
      | \b(?i:bearer)\s+\S*
      | (?<!\S)\S+
    )\Z
    """,
    re.VERBOSE | re.DOTALL,
)

MAX_SECRET_NAME_CHARS = 16  # of what follows; only the end of a name counts
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
    text = redact_known(text)
    return _SHAPES.sub(REDACTED, text) if _may_hold_secrets(text) else text


def _may_hold_secrets(text: str) -> bool:
    for hint in _HINTS:  # a generator would take as long again: each word of each event is looked at
        if hint in text:
            return True
    return "bearer" in text.lower()


def redact_known(text: str) -> str:
    """Without the secrets that this process knows; for what must keep everything else, such as a repository's text."""
    for secret in _known:
        if secret in text:
            text = text.replace(secret, REDACTED)
    return text


def hides_what_counts(text: str) -> bool:
    """Would whoever is shown `redact(text)` miss a part of what it does? A name or a program may look like a secret."""
    if any(secret in text and not _WORD.fullmatch(secret) for secret in _known):
        return True
    rest = redact_known(text)
    return _may_hold_secrets(rest) and not all(_is_login(found) for found in _SHAPES.finditer(rest))


def _is_login(found: re.Match[str]) -> bool:
    before, after = found.string[: found.start()][-3:], found.string[found.end() :][:1]
    blanked = found.group().replace(REDACTED, "redacted")
    return (before, after) == ("://", "@") and _LOGIN.fullmatch(blanked) is not None


def redact_head(text: str, max_chars: int) -> str:
    """The first characters, without secrets: one that the cut would halve is blanked out before it."""
    return redact(text[: max_chars + MAX_UNSETTLED_CHARS])[:max_chars]


def redact_tail(text: str, max_chars: int) -> str:
    """The last characters, in the same way."""
    return redact(text[-(max_chars + MAX_UNSETTLED_CHARS) :])[-max_chars:]


def settled_chars(text: str) -> int:
    """How many characters of a text that still grows can be redacted and let go: what follows may finish a secret.

    At most the last `MAX_UNSETTLED_CHARS` are held back, so that a text without white space goes on, too.

    >>> settled_chars("the key is sk-12")
    11
    """
    window = text[-MAX_UNSETTLED_CHARS:]
    unfinished = _UNFINISHED.search(window)
    cut = min([unfinished.start() if unfinished else len(window), *(_beginning(secret, window) for secret in _known)])
    for start, end in sorted(_secret_spans(window), reverse=True):
        if start < cut < end:  # whole by now, and to be blanked out in one piece
            cut = start
    return len(text) - len(window) + cut


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


def may_hold_secrets(value: Any) -> bool:
    """Might `redact_value` change this? Says yes for nothing where it does not know; much quicker than to do it."""
    texts: list[str] = []
    if _finds_secret_name(value, texts):
        return True
    whole = "\n".join(texts)
    return _may_hold_secrets(whole) or any(secret in whole for secret in _known)


def texts_of(value: Any) -> Iterator[str]:
    """All texts in lists and maps."""
    match value:
        case str():
            yield value
        case dict():
            for inner in cast(dict[Any, Any], value).values():
                yield from texts_of(inner)
        case list() | tuple():
            for inner in cast(list[Any], value):
                yield from texts_of(inner)
        case _:
            return


def _finds_secret_name(value: Any, texts: list[str]) -> bool:
    """Does a key name a secret, or is anything of an unknown kind? All texts on the way are gathered."""
    match value:
        case str():
            texts.append(value)
            return False
        case None | int() | float():
            return False
        case dict():
            items = cast(dict[Any, Any], value).items()
            return any(_names_secret(key) or _finds_secret_name(inner, texts) for key, inner in items)
        case list() | tuple():
            return any(_finds_secret_name(inner, texts) for inner in cast(list[Any], value))
        case _:
            return True


def _beginning(secret: str, text: str) -> int:
    """Where the end of the text may be the beginning of the secret; the text's length when nowhere."""
    shortest = max(0, len(text) - len(secret) + 1)
    return next((at for at in range(shortest, len(text)) if secret.startswith(text[at:])), len(text))


def _secret_spans(text: str) -> list[tuple[int, int]]:
    known = [found.span() for secret in _known for found in re.finditer(re.escape(secret), text)]
    return known + [found.span() for found in _SHAPES.finditer(text)]


def _names_secret(key: Any) -> bool:
    return isinstance(key, str) and _is_secret_name(key[-MAX_SECRET_NAME_CHARS:])


@lru_cache(1024)  # the same few names come for ever
def _is_secret_name(end: str) -> bool:
    return _SECRET_NAMES.search(end) is not None
