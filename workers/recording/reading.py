"""Cassettes as they come back, perhaps from somebody else's hands."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from transport.blobs.base import Blobs

from ..errors import BadInput
from ..llm.cassette import Entry, read

# The longest session that a window of a million tokens allows is a hundredth of this.
MAX_CASSETTE_BYTES = 512 * 1024 * 1024
# What can be wrong with a file that somebody else has written; `ValueError` holds JSON's, pydantic's and UTF-8's.
ODD = (ValueError, TypeError, LookupError, AttributeError, RecursionError)


async def cassette_at(blobs: Blobs, ref: str) -> tuple[Entry, ...]:
    """`BadInput` for a blob that is no cassette."""
    return read_cassette(await blobs.get(ref))


def read_cassette(content: bytes) -> tuple[Entry, ...]:
    with readable():
        if len(content) > MAX_CASSETTE_BYTES:
            raise ValueError(f"it is longer than {MAX_CASSETTE_BYTES >> 20} MiB")
        return read(content.decode())


@contextmanager
def readable() -> Generator[None]:
    try:
        yield
    except ODD as e:
        why = " ".join(f"{type(e).__name__}: {e}".split())[:200]
        raise BadInput(f"the recording cannot be read: {why}", hint="record the task again: --record") from e
