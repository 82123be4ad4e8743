"""Cursors of listings: a page ends at a task's moment (of its acceptance, say), and among equals at its id."""

from __future__ import annotations

import re

from .errors import Refused

# The moment in ms, and the task.
Place = tuple[int, str]
_CURSOR = re.compile(r"([0-9]{1,16})-([0-9a-f-]{36})")


def cursor_of(place: Place) -> str:
    return f"{place[0]}-{place[1]}"


def place_of(cursor: str) -> Place | None:
    """None for the empty one, before all. `Refused` for what is none."""
    if not cursor:
        return None
    found = _CURSOR.fullmatch(cursor)
    if found is None:
        raise Refused("cursor", f"{cursor[:60]!r} is none", hint="take it as an earlier page gave it, or leave it out")
    return int(found[1]), found[2]
