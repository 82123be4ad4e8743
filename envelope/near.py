"""The name that somebody may have meant. Names come from models, repositories and callers: no comparison takes long."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

MAX_CHARS = 64  # of a name: who wrote more has misspelt none
MAX_NAMES = 200  # that are compared, those first that are about as long


def close_names(name: str, known: Iterable[str], *, count: int = 1, cutoff: float = 0.6) -> list[str]:
    """The closest first, at most `count`; `cutoff` as of difflib.

    >>> close_names("buidl", ["build", "explore"])
    ['build']
    """
    if len(name) > MAX_CHARS:
        return []
    short = sorted({one for one in known if len(one) <= MAX_CHARS}, key=lambda one: (abs(len(one) - len(name)), one))
    return get_close_matches(name, short[:MAX_NAMES], n=count, cutoff=cutoff)
