"""Cassettes as they come back, perhaps from somebody else's hands."""

from __future__ import annotations

import io
from collections.abc import Generator, Iterator
from contextlib import contextmanager

from ..errors import BadInput
from ..llm.cassette import Entry, read

# A window of a million tokens is about 5 MB of text, and a line is at most one whole window.
MAX_BYTES, MAX_LINE_BYTES = 64 * 1024 * 1024, 16 * 1024 * 1024
# Lists and objects, counted with the brackets in texts. They are what is made of few bytes: an empty list is 2, and
# takes 72 in memory. A line is read in one go, in which no other thread runs.
MAX_BRACKETS, MAX_LINE_BRACKETS = 2_000_000, 500_000
MAX_LINES = 100_000
# What can be wrong with a file that somebody else has written; `ValueError` holds JSON's, pydantic's and UTF-8's.
ODD = (ValueError, TypeError, LookupError, AttributeError, RecursionError)


def entries_of(cassette: bytes) -> Iterator[Entry]:
    """One after the other, so that what nobody keeps takes no memory. `BadInput` for what is no cassette, or is longer
    than one is read."""
    _require("bytes", len(cassette), MAX_BYTES)
    _require("brackets", _brackets(cassette), MAX_BRACKETS)
    _require("lines", cassette.count(b"\n"), MAX_LINES)
    for line in io.BytesIO(cassette):  # ends at newlines alone: other separators may stand in a string
        _require("bytes in one line", len(line), MAX_LINE_BYTES)
        _require("brackets in one line", _brackets(line), MAX_LINE_BRACKETS)
        if line := line.rstrip(b"\n"):
            with readable():
                entry = read(line)
            yield entry


def _brackets(json: bytes) -> int:
    return json.count(b"[") + json.count(b"{")


def _require(what: str, count: int, limit: int) -> None:
    if count > limit:
        raise BadInput(
            f"the recording cannot be read: it has {count:,} {what}, and at most {limit:,} are read",
            hint="record a shorter task: --record",
        )


@contextmanager
def readable() -> Generator[None]:
    try:
        yield
    except ODD as e:
        why = " ".join(f"{type(e).__name__}: {e}".split())[:200]
        raise BadInput(f"the recording cannot be read: {why}", hint="record the task again: --record") from e
